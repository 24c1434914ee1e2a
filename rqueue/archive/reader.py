"""Reads ended tasks from the archive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.rows import stored_in
from rqueue.store.replies import UNREADABLE
from rqueue.task.fields import MICRO
from rqueue.task.ids import TaskId, external_key, ulid_of
from rqueue.task.lane import Lane
from rqueue.task.spec import TaskSpec
from rqueue.task.task import Tokens

if TYPE_CHECKING:
    from uuid import UUID

    from rqueue.archive.connection import Archive
    from rqueue.archive.filters import TaskFilter
    from rqueue.clock import Clock
    from rqueue.task.task import Task


# Number of keys in a page. Their contents are read in portions of at most PORTION tasks or about
# BYTES bytes, so that other work of the event loop can run in between.
PAGE = 1_000
PORTION = 200
BYTES = 8_000_000
# Hashes in one statement.
TOGETHER = 1_000
# The cost of a task up to the end of a life comes from the view, because a record does not contain
# late costs.
COLUMNS = (
    "t.id, t.type, t.definition, t.result, t.record,"
    " (SELECT ARRAY[sum(c.cost_micro_usd), sum(c.tokens_input), sum(c.tokens_output)]::bigint[]"
    " FROM rqueue.life_costs c WHERE c.id = t.id AND c.life <= t.life)"
)
ORDER = "t.finished_at DESC, t.id DESC, t.life DESC"
KEYS = (
    "SELECT t.id, t.life, round(extract(epoch FROM t.finished_at) * 1000)::bigint,"
    " octet_length(t.definition) + coalesce(octet_length(t.result), 0) + octet_length(t.record)"
    " FROM rqueue.task_lives t WHERE {condition} ORDER BY " + ORDER + " LIMIT %(limit)s"
)
AFTER = (
    " AND t.finished_at <= 'epoch'::timestamptz + %(ms)s * interval '1 millisecond'"
    " AND (t.finished_at, t.id, t.life) <"
    " ('epoch'::timestamptz + %(ms)s * interval '1 millisecond', %(id)s, %(life)s)"
)
CONTENTS = (
    f"SELECT {COLUMNS} FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) WITH ORDINALITY"
    " AS k (id, life, place) JOIN rqueue.task_lives t ON t.id = k.id AND t.life = k.life"
    " ORDER BY k.place"
)
LIVES = (
    f"SELECT {COLUMNS} FROM rqueue.task_lives t WHERE t.queue = %(queue)s AND t.id = %(id)s"
    " AND (%(life)s::integer IS NULL OR t.life = %(life)s) ORDER BY t.life DESC LIMIT %(limit)s"
)
EXTERNAL = (
    "SELECT t.id FROM rqueue.task_lives t WHERE t.queue = %(queue)s AND t.external_sha = %(sha)s"
    " ORDER BY t.finished_at DESC LIMIT 1"
)
COMPLETED = (
    "SELECT DISTINCT ON (t.idempotency_sha) t.idempotency_sha, t.id FROM rqueue.task_lives t"
    " WHERE t.queue = %(queue)s AND t.idempotency_sha = ANY(%(shas)s) AND t.state = 'COMPLETED'"
    " ORDER BY t.idempotency_sha, t.finished_at DESC"
)
MANY_LIVES = 1_000


class Key(NamedTuple):
    """The key of one life, the time of its end, and the number of its stored bytes."""

    id: UUID
    life: int
    finished_ms: int
    size: int


class ArchiveReader:
    """Reads the archived tasks of one queue. `rate` is the default aging rate of its tasks. Raises
    StoreUnavailable if PostgreSQL is unavailable, and ConfigError if its tables are missing.
    """

    def __init__(self, archive: Archive, queue: str, clock: Clock, *, rate: float) -> None:
        self.archive = archive
        self.queue = queue
        self.clock = clock
        self.rate = rate

    async def get(self, task: str, life: int | None = None) -> Task | None:
        """Returns a task by its id or its external id, in its newest life or in `life`; None if it
        is not in the archive.
        """
        if isinstance(task, TaskId):
            found = await self.lives_of(task.uuid, life, limit=1)
            if found:
                return found[0]
        rows = await self.rows(EXTERNAL, {"queue": self.queue, "sha": external_key(task)})
        if not rows:
            return None
        found = await self.lives_of(rows[0][0], life, limit=1)
        return found[0] if found else None

    async def lives(self, task: str) -> list[Task]:
        """Returns all lives of a task, newest first; empty if it is not in the archive."""
        newest = await self.get(task)
        return [] if newest is None else await self.lives_of(newest.id.uuid, None, limit=MANY_LIVES)

    async def lives_of(self, id: UUID, life: int | None, *, limit: int) -> list[Task]:
        """Returns the newest lives of an id, or only `life`."""
        given = {"queue": self.queue, "id": id, "life": life, "limit": limit}
        return self.tasks_of(await self.rows(LIVES, given))

    async def find(self, wanted: TaskFilter, *, limit: int | None = None) -> AsyncIterator[Task]:
        """Yields the matching tasks, the latest end first, read in pages. Tasks that end meanwhile
        may be missed; no task is yielded twice.
        """
        left, last = limit, None
        while left is None or left > 0:
            keys = await self.keys(wanted, last, PAGE if left is None else min(PAGE, left))
            for portion in portions(keys):
                for task in await self.contents(portion):
                    yield task
            if not keys or len(keys) < PAGE:
                return
            last = keys[-1]
            left = None if left is None else left - len(keys)

    async def count(self, wanted: TaskFilter) -> int:
        """Returns the number of matching tasks."""
        condition, given = wanted.condition(self.queue)
        statement = f"SELECT count(*) FROM rqueue.task_lives t WHERE {condition}"
        ((number,),) = await self.search(statement, given)
        return int(number)

    async def keys(self, wanted: TaskFilter, last: Key | None, limit: int) -> list[Key]:
        """Returns a page of matching lives; `last` is the last key of the previous page."""
        condition, given = wanted.condition(self.queue)
        given["limit"] = limit
        if last is not None:
            condition += AFTER
            given |= {"ms": last.finished_ms, "id": last.id, "life": last.life}
        rows = await self.search(KEYS.replace("{condition}", condition), given)
        return [Key(*row) for row in rows]

    async def contents(self, keys: Sequence[Key]) -> list[Task]:
        """Returns the tasks of these lives; lives that were deleted meanwhile are left out."""
        ids, lives = [key.id for key in keys], [key.life for key in keys]
        return self.tasks_of(await self.search(CONTENTS, {"ids": ids, "lives": lives}))

    async def completed(self, shas: Sequence[str]) -> dict[str, TaskId]:
        """Returns the completed tasks by the hashes of their idempotency keys."""
        found: dict[str, TaskId] = {}
        for start in range(0, len(shas), TOGETHER):
            page = list(shas[start : start + TOGETHER])
            rows = await self.rows(COMPLETED, {"queue": self.queue, "shas": page})
            found |= {sha: task_id(id) for sha, id in rows}
        return found

    async def rows(self, statement: str, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement that uses an index, with the timeout of a call."""
        return await self.answer(self.archive.timeout_sec, statement, given)

    async def search(self, statement: str, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement that may read whole tables, with the long timeout."""
        return await self.answer(SEARCH_SEC, statement, given)

    async def answer(
        self, limit_sec: float, statement: str, given: Mapping[str, object]
    ) -> list[tuple[Any, ...]]:
        """Returns the rows of one statement within a timeout."""
        async with self.archive.within(limit_sec) as connection:
            cursor = await connection.execute(statement.encode(), given, binary=True)
            return list(await cursor.fetchall())

    def tasks_of(self, rows: Sequence[tuple[Any, ...]]) -> list[Task]:
        """Returns the rows as tasks; rows that this release cannot read are left out."""
        now_ms = self.clock.now_ms()
        found = (self.task_of(row, now_ms) for row in rows)
        return [task for task in found if task is not None]

    def task_of(self, row: Sequence[Any], now_ms: int) -> Task | None:
        """Returns one row as a Task, as it was read from Redis; None if the row is unreadable."""
        id, type, definition, result, record, (cost, read, written) = row
        try:
            stored = stored_in(record, definition, result or b"")
            lane = Lane(type, self.rate_of(definition))
            task = stored.task(task_id(id), lane, now_ms=now_ms, lease_ms=0)
        except UNREADABLE:
            return None
        tokens = Tokens(input=read, output=written)
        return task.model_copy(update={"cost_usd": cost / MICRO, "tokens_used": tokens})

    def rate_of(self, definition: bytes) -> float:
        """Returns the aging rate of a task, the only property of its lane that a Task needs."""
        if b'"priority_boost_per_minute"' not in definition:
            return self.rate
        own = TaskSpec.salvage(definition)[0].priority_boost_per_minute
        return self.rate if own is None else own


def portions(keys: Sequence[Key]) -> Iterator[list[Key]]:
    """Yields the keys in groups that are read together."""
    group: list[Key] = []
    size = 0
    for key in keys:
        if group and (size + key.size > BYTES or len(group) == PORTION):
            yield group
            group, size = [], 0
        group.append(key)
        size += key.size
    if group:
        yield group


def task_id(id: UUID) -> TaskId:
    """Returns the task id of a row's UUID."""
    return TaskId.from_ulid(ulid_of(id.int))
