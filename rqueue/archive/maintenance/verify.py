"""Compares what Redis still has of ended tasks with the archive, and how many there were with how
many there are. Nothing stops meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from rqueue.archive.maintenance import stored_lives
from rqueue.archive.maintenance.stored_lives import life_in, state_in
from rqueue.archive.rows import Unfit, row_of
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
    from rqueue.archive.maintenance.stored_lives import Life
    from rqueue.clock import Clock
    from rqueue.core.ended import EndedTask
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard

PAGE = 250
# How often the outbox is counted while tasks end and are archived.
TRIES = 3
# A row is pruned at any time of the hour after its days are over.
PRUNED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Ends:
    """How many tasks ended in one way: by the counters of the queue, since it began; in the
    archive; on their way there.
    """

    counted: int
    archived: int
    waiting: int


@dataclass(slots=True)
class Verified:
    """What was found. `looked_at` ended lives are in Redis; of these `pending` wait in the outbox,
    `lost` are neither there nor in the archive, `different` have another content there. `counter`
    and `counted` are the outbox as it is counted and as it is, None where it never stood still;
    `recounted` is what the counter was set to. `ends` has the ways to end of which the archive is
    to keep all rows; dead tasks are all in Redis.
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
        """How many tasks, at least, ended by the counters and are nowhere now. Nobody knows which,
        nor why: they may have ended before there was an archive, or their rows were deleted. So it
        makes nothing less whole.
        """
        missing = sum(
            max(0, one.counted - one.archived - one.waiting) for one in self.ends.values()
        )
        return max(0, missing - len(self.lost) - self.quarantined - self.conflicts)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing, and nothing differs."""
        found = (self.lost, self.different, self.missing_months)
        return not any(found) and self.counter == self.counted


@dataclass(frozen=True, slots=True)
class Seen:
    """An ended life as Redis has it: its digest as the archive would write it, None where it can be
    no row; how it ended and when, or when a dead one was discarded.
    """

    life: Life
    state: str
    digest: bytes | None
    ended: datetime | None


class Verifier:
    """Looks at all that one queue has ended, a page at a time."""

    def __init__(self, archive: Archive, shard: Shard, settings: Settings, clock: Clock) -> None:
        self.archive = archive
        self.shard = shard
        self.settings = settings
        self.clock = clock

    async def verify(self) -> Verified:
        """What is there, what waits, and what should be there."""
        found = Verified()
        suspects: list[Seen] = []
        async for page in self.pages():
            found.looked_at += len(page)
            suspects += await self.compare(page, found)
        found.lost = await self.still_missing(suspects, found)
        await self.count(found)
        await self.count_ends(found)
        queue = self.settings.name
        found.quarantined, found.conflicts = await stored_lives.counts(self.archive, queue)
        found.missing_months = await stored_lives.missing_months(self.archive, self.clock.now())
        return found

    async def repair(self, found: Verified) -> None:
        """Puts what is lost into the outbox again, and the counter of that right."""
        if found.counter != found.counted:
            await self.recount(found)
        lives = [(task.ulid, life) for task, life in found.lost]
        found.resent = await outbox.resend(self.shard, lives)

    async def pages(self) -> AsyncIterator[list[Seen]]:
        """The ended lives that Redis has, each at least once."""
        cursor = sweeper.START
        while True:
            names = await sweeper.walk(self.shard, ["task"], cursor, limit=PAGE)
            ulids = [name.partition(":")[2] for name in names.names]
            yield [seen async for seen in self.ended(ulids)]
            cursor = names.cursor
            if cursor == sweeper.START:
                return

    async def ended(self, ulids: list[str]) -> AsyncIterator[Seen]:
        """Those of these tasks that have ended."""
        left = ulids
        while left:
            # By the script: some of them still run, and may end while they are read.
            page = await read_whole(self.shard, left)
            for ulid, kept in zip(left, page, strict=False):
                seen = seen_in(ulid, kept.unpacked())
                if seen is not None:
                    yield seen
            left = left[len(page) :]

    async def compare(self, page: Sequence[Seen], found: Verified) -> list[Seen]:
        """Notes what the archive has otherwise; what it has not."""
        rows = await stored_lives.digests(self.archive, [seen.life for seen in page])
        for seen in page:
            row = rows.get(seen.life)
            if row is not None and seen.digest is not None and row != seen.digest:
                found.different.append(seen.life)
        return [seen for seen in page if seen.life not in rows and not self.is_pruned(seen)]

    def is_pruned(self, seen: Seen) -> bool:
        """Whether the archive need not have it any longer."""
        policy = self.settings.retention
        days = {
            State.COMPLETED: policy.completed_days,
            State.CANCELLED: policy.cancelled_days,
            State.DEAD_LETTERED: policy.dead_days,
        }[State(seen.state)]
        if days is None or seen.ended is None:
            return False
        return seen.ended < self.clock.now() - timedelta(days=days) + PRUNED

    async def still_missing(self, suspects: Sequence[Seen], found: Verified) -> list[Life]:
        """Those that are not on their way either. An entry leaves the outbox only after its row is
        there: what is not in the outbox now has a row now, or none at all.
        """
        missing = {seen.life for seen in suspects}
        if not missing:
            return []
        waiting = await on_their_way(self.shard, missing)
        found.pending += len(waiting)
        missing -= waiting
        lost: list[Life] = []
        for part in parts(sorted(missing)):
            rows = await stored_lives.digests(self.archive, part)
            names = [task for task, _ in part]
            quarantined = await stored_lives.quarantined(self.archive, self.settings.name, names)
            ended = {seen.life async for seen in self.ended([task.ulid for task in names])}
            # One that lives again, or has expired meanwhile, is nothing to look for.
            lost += [
                one for one in part if one not in rows and one not in quarantined and one in ended
            ]
        return lost

    async def count(self, found: Verified) -> None:
        """Counts the outbox while it stands still."""
        for _ in range(TRIES):
            before = await self.counter()
            seen = await outbox.measure(self.shard)
            if (seen, before) == (await outbox.measure(self.shard), await self.counter()):
                found.counter, found.counted = before, seen.tasks
                return

    async def count_ends(self, found: Verified) -> None:
        """Counts in all three places. An end is in the outbox before it is a row: whatever happens
        meanwhile, none that was counted is missed.
        """
        lanes = (await tally(self.shard)).lanes
        waiting: Counter[State | None] = Counter()
        async for page in outbox.walk(self.shard):
            waiting.update(state_in(line) for entry in page for line in entry.lines)
        archived = await stored_lives.ends(self.archive, self.settings.name)
        for state in self.kept_for_ever():
            counted = sum(lane.states.get(state, 0) for lane in lanes)
            found.ends[state] = Ends(counted, archived[state], waiting[state])

    def kept_for_ever(self) -> list[State]:
        """The ways to end that no row is pruned of, and no task lives on after."""
        policy = self.settings.retention
        # A dead task that was given up is cancelled, and kept as long as the dead.
        pruned = {
            State.COMPLETED: policy.completed_days,
            State.CANCELLED: policy.cancelled_days or policy.dead_days,
        }
        return [state for state, days in pruned.items() if days is None]

    async def recount(self, found: Verified) -> None:
        """Sets the counter of the outbox to what is in it, if that stands still meanwhile."""
        for _ in range(TRIES):
            counter = await self.counter()
            seen = await outbox.measure(self.shard)
            if await outbox.recount(self.shard, seen, counter):
                found.recounted = seen.tasks
                return

    async def counter(self) -> int:
        """How many tasks the outbox is said to have."""
        return (await tally(self.shard)).counters.get("outbox", 0)


async def on_their_way(shard: Shard, lives: AbstractSet[Life]) -> set[Life]:
    """Those of these lives that wait in the outbox."""
    waiting: set[Life] = set()
    async for page in outbox.walk(shard):
        waiting |= lives & {life_in(line) for entry in page for line in entry.lines}
    return waiting


def seen_in(ulid: str, kept: EndedTask) -> Seen | None:
    """An ended life; None for a task that has not ended, or that nothing can be read of."""
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
    how = state if discarded is None else State.DEAD_LETTERED.value
    try:
        row = row_of(OutboxItem(ulid.encode(), f"{number} {state}".encode()), kept)
    except Unfit:
        return Seen((task, number), how, None, ended)
    return Seen((task, number), how, bytes.fromhex(row.columns["digest"].lstrip("\\x")), ended)


def parts(lives: Sequence[Life]) -> Iterable[Sequence[Life]]:
    """Lives in portions that one call asks for."""
    return (lives[start : start + PAGE] for start in range(0, len(lives), PAGE))
