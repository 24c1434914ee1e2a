"""Compares the ended tasks in Redis with the rows of the archive, and the counters of the queue
with the number of rows, while tasks end and are archived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.health import read_counts
from rqueue.archive.rows import Unfit, end_in, life_in, row_of
from rqueue.archive.schema import known_months, this_and_next
from rqueue.core import outbox
from rqueue.core.counts import tally
from rqueue.core.ended import pairs, read_whole
from rqueue.core.outbox import OutboxItem
from rqueue.maintenance import sweeper
from rqueue.store.replies import UNREADABLE, life, moment, natural
from rqueue.task.ids import TaskId
from rqueue.task.state import FINAL, State

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from rqueue.archive.connection import Archive
    from rqueue.archive.rows import Life
    from rqueue.clock import Clock
    from rqueue.core.ended import EndedTask
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard

DIGESTS = """
SELECT t.id, t.life, t.digest
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS asked(id, life)
JOIN rqueue.task_lives t ON t.id = asked.id AND t.life = asked.life
"""
# A line starts with the life; the rest may be large.
QUARANTINED = """
SELECT DISTINCT task, substring(line FROM 1 FOR 64)
FROM rqueue.quarantine WHERE queue = %s AND task = ANY(%s)
"""

# Completed lives are the remainder, so that only indexes are read.
ENDS = """
SELECT
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s),
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s AND state = 'CANCELLED'),
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s AND state = 'DEAD_LETTERED')
"""
PAGE = 250
# How often the outbox is counted while tasks end and are archived.
TRIES = 3
# A row is deleted at some time within this after its days are over.
PRUNED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Ends:
    """The number of tasks that ended in one state: by the counters of the queue, in the archive,
    and in the outbox.
    """

    counted: int
    archived: int
    waiting: int


@dataclass(slots=True)
class Verified:
    """The result of a comparison. `looked_at` ended lives are in Redis; of these, `pending` are in
    the outbox, `lost` are neither in the outbox nor in the archive, and `different` differ from
    their row. `counter` and `counted` are the counter of the outbox and the number of tasks in it,
    None if it changed during each attempt to count; `recounted` is the corrected counter. `ends`
    has the final states of which no rows are pruned; dead tasks are not in it, because all of them
    are in Redis.
    """

    looked_at: int = 0
    pending: int = 0
    lost: list[tuple[TaskId, int]] = field(default_factory=list)
    different: list[tuple[TaskId, int]] = field(default_factory=list)
    counter: int | None = None
    counted: int | None = None
    missing_months: list[str] = field(default_factory=list)
    quarantined: int = 0
    conflicts: int = 0
    resent: int = 0
    recounted: int | None = None
    ends: dict[State, Ends] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """The least number of tasks that ended by the counters and are not stored anywhere. They
        may have ended before the queue had an archive, or their rows were deleted, so `is_whole`
        does not depend on it.
        """
        missing = sum(
            max(0, one.counted - one.archived - one.waiting) for one in self.ends.values()
        )
        return max(0, missing - len(self.lost) - self.quarantined - self.conflicts)

    @property
    def is_whole(self) -> bool:
        """Whether no row is missing or different, and the counter is correct."""
        found = (self.lost, self.different, self.missing_months)
        return not any(found) and self.counter == self.counted


@dataclass(frozen=True, slots=True)
class EndedLife:
    """An ended life in Redis. `digest` is that of its row, None if it cannot be stored as a row.
    `ended` is when it ended; for a discarded task, when it was discarded.
    """

    life: Life
    state: str
    digest: bytes | None
    ended: datetime | None


class Verifier:
    """Compares the ended tasks of one queue with the archive, page by page."""

    def __init__(self, archive: Archive, shard: Shard, settings: Settings, clock: Clock) -> None:
        self.archive = archive
        self.shard = shard
        self.settings = settings
        self.clock = clock

    async def verify(self) -> Verified:
        """Compares all ended tasks of the queue. Changes nothing."""
        found = Verified()
        missing: list[EndedLife] = []
        async for page in self.pages():
            found.looked_at += len(page)
            missing += await self.compare(page, found)
        found.lost = await self.lost_of(missing, found)
        await self.count(found)
        await self.count_ends(found)
        queue = self.settings.name
        async with self.archive.connection() as connection:
            found.quarantined, found.conflicts = await read_counts(connection, queue)
        found.missing_months = await missing_months(self.archive, self.clock.now())
        return found

    async def repair(self, found: Verified) -> None:
        """Adds lost tasks to the outbox again, and corrects the counter of the outbox."""
        if found.counter != found.counted:
            await self.recount(found)
        lives = [(task.ulid, life) for task, life in found.lost]
        found.resent = await outbox.resend(self.shard, lives)

    async def pages(self) -> AsyncIterator[list[EndedLife]]:
        """Yields the ended lives in Redis in pages, each life at least once."""
        cursor = sweeper.START
        while True:
            names = await sweeper.walk(self.shard, ["task"], cursor, limit=PAGE)
            ulids = [name.partition(":")[2] for name in names.names]
            yield [seen async for seen in self.ended(ulids)]
            cursor = names.cursor
            if cursor == sweeper.START:
                return

    async def ended(self, ulids: list[str]) -> AsyncIterator[EndedLife]:
        """Yields those of these tasks that have ended."""
        left = ulids
        while left:
            # One atomic call for each page: a running task may end while it is read.
            page = await read_whole(self.shard, left)
            for ulid, kept in zip(left, page, strict=False):
                life = ended_life(ulid, kept.unpacked())
                if life is not None:
                    yield life
            left = left[len(page) :]

    async def compare(self, page: Sequence[EndedLife], found: Verified) -> list[EndedLife]:
        """Records lives that differ from their rows. Returns those that have no row and should have
        one.
        """
        rows = await digests(self.archive, [one.life for one in page])
        for one in page:
            row = rows.get(one.life)
            if row is not None and one.digest is not None and row != one.digest:
                found.different.append(one.life)
        return [one for one in page if one.life not in rows and not self.is_pruned(one)]

    def is_pruned(self, ended: EndedLife) -> bool:
        """Returns whether the row may have been deleted by the retention."""
        policy = self.settings.retention
        days = {
            State.COMPLETED: policy.completed_days,
            State.CANCELLED: policy.cancelled_days,
            State.DEAD_LETTERED: policy.dead_days,
        }[State(ended.state)]
        if days is None or ended.ended is None:
            return False
        return ended.ended < self.clock.now() - timedelta(days=days) + PRUNED

    async def lost_of(self, missing: Sequence[EndedLife], found: Verified) -> list[Life]:
        """Returns those of these lives that are not in the outbox either. An entry leaves the
        outbox only after its rows are committed, so a life that is not in the outbox now either has
        a row or is lost.
        """
        left = {one.life for one in missing}
        if not left:
            return []
        waiting = await in_outbox(self.shard, left)
        found.pending += len(waiting)
        left -= waiting
        lost: list[Life] = []
        for part in pages_of(sorted(left)):
            rows = await digests(self.archive, part)
            names = [task for task, _ in part]
            quarantined = await quarantined_lives(self.archive, self.settings.name, names)
            # A task that was retried or has expired meanwhile is not lost.
            ended = {one.life async for one in self.ended([task.ulid for task in names])}
            lost += [
                one for one in part if one not in rows and one not in quarantined and one in ended
            ]
        return lost

    async def count(self, found: Verified) -> None:
        """Counts the tasks in the outbox; repeats that if the outbox changes meanwhile."""
        for _ in range(TRIES):
            counter = await self.counter()
            size = await outbox.measure(self.shard)
            if (size, counter) == (await outbox.measure(self.shard), await self.counter()):
                found.counter, found.counted = counter, size.tasks
                return

    async def count_ends(self, found: Verified) -> None:
        """Counts ended tasks by the counters of the queue, in the outbox and in the archive. An end
        is in the outbox before it is a row, so this order misses no counted end.
        """
        lanes = (await tally(self.shard)).lanes
        waiting: Counter[State | None] = Counter()
        async for page in outbox.walk(self.shard):
            waiting.update(state_in(line) for entry in page for line in entry.lines)
        archived = await archived_ends(self.archive, self.settings.name)
        for state in self.unpruned_states():
            counted = sum(lane.states.get(state, 0) for lane in lanes)
            found.ends[state] = Ends(counted, archived[state], waiting[state])

    def unpruned_states(self) -> list[State]:
        """Returns the final states of which no rows are pruned and no task is retried."""
        policy = self.settings.retention
        # A discarded task is cancelled, and its row is kept as long as those of dead tasks.
        pruned = {
            State.COMPLETED: policy.completed_days,
            State.CANCELLED: policy.cancelled_days or policy.dead_days,
        }
        return [state for state, days in pruned.items() if days is None]

    async def recount(self, found: Verified) -> None:
        """Sets the counter of the outbox to the number of tasks in it, unless it changes
        meanwhile.
        """
        for _ in range(TRIES):
            counter = await self.counter()
            size = await outbox.measure(self.shard)
            if await outbox.recount(self.shard, size, counter):
                found.recounted = size.tasks
                return

    async def counter(self) -> int:
        """Returns the counter of the outbox."""
        return (await tally(self.shard)).counters.get("outbox", 0)


async def in_outbox(shard: Shard, lives: AbstractSet[Life]) -> set[Life]:
    """Returns those of these lives that are in the outbox."""
    waiting: set[Life] = set()
    async for page in outbox.walk(shard):
        waiting |= lives & {life_in(line) for entry in page for line in entry.lines}
    return waiting


def ended_life(ulid: str, kept: EndedTask) -> EndedLife | None:
    """Returns the ended life of a task; None if the task has not ended or is unreadable."""
    fields = dict(pairs(kept.flat))
    state = fields.get(b"state", b"").decode(errors="replace")
    if state not in FINAL:
        return None
    try:
        task, number = TaskId.parse(ulid), life(fields.get(b"more", b"").decode())
        discarded = fields.get(b"discarded")
        ended = moment(natural(discarded or fields.get(b"finished", b"")))
    except UNREADABLE:
        return None
    final = state if discarded is None else State.DEAD_LETTERED.value
    try:
        row = row_of(OutboxItem(ulid.encode(), f"{number} {state}".encode()), kept)
    except Unfit:
        return EndedLife((task, number), final, None, ended)
    return EndedLife(
        (task, number), final, bytes.fromhex(row.columns["digest"].lstrip("\\x")), ended
    )


def pages_of(lives: Sequence[Life]) -> Iterable[Sequence[Life]]:
    """Yields the lives in pages that one statement reads."""
    return (lives[start : start + PAGE] for start in range(0, len(lives), PAGE))


async def digests(archive: Archive, lives: Sequence[Life]) -> Mapping[Life, bytes]:
    """Returns the digests of these lives; those without a row are left out."""
    facts = {"ids": [task.uuid for task, _ in lives], "lives": [life for _, life in lives]}
    async with archive.connection() as connection:
        cursor = await connection.execute(DIGESTS, facts)
        rows = await cursor.fetchall()
    return {(TaskId.parse(id), life): bytes(digest) for id, life, digest in rows}


async def quarantined_lives(
    archive: Archive, queue: str, tasks: Sequence[TaskId]
) -> set[Life | None]:
    """Returns the lives of these tasks whose ends are in quarantine."""
    async with archive.connection() as connection:
        cursor = await connection.execute(QUARANTINED, [queue, [task.ulid for task in tasks]])
        rows = await cursor.fetchall()
    return {life_in(OutboxItem(str(task).encode(), bytes(head))) for task, head in rows}


async def archived_ends(archive: Archive, queue: str) -> dict[State, int]:
    """Returns the number of archived lives of a queue by final state."""
    async with archive.within(SEARCH_SEC) as connection:
        cursor = await connection.execute(ENDS, {"queue": queue})
        row = await cursor.fetchone()
    total, cancelled, dead = row or (0, 0, 0)
    return {
        State.COMPLETED: total - cancelled - dead,
        State.CANCELLED: cancelled,
        State.DEAD_LETTERED: dead,
    }


async def missing_months(archive: Archive, now: datetime) -> list[str]:
    """Returns the missing partitions of the current and the next month."""
    async with archive.connection() as connection:
        known = await known_months(connection)
    return [month.table for month in this_and_next(now) if month.table not in known]


def state_in(line: OutboxItem) -> State | None:
    """Returns the final state in a line of the outbox; None if it has none, as a late cost."""
    try:
        return State(end_in(line).state)
    except Unfit:
        return None
