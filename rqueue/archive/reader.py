"""Reads ended tasks from the archive. Filters become SQL conditions; values given by callers are
passed as parameters, never as part of the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.dag_rows import number_in
from rqueue.archive.rows import stored_in
from rqueue.core.reader import Stored
from rqueue.errors import InvalidTask
from rqueue.store.replies import UNREADABLE
from rqueue.task.artifact import placeholder_in
from rqueue.task.codec import decode
from rqueue.task.dag import DagSpec
from rqueue.task.fields import MICRO
from rqueue.task.ids import DagId, TaskId, external_key, ulid_of
from rqueue.task.lane import Lane
from rqueue.task.spec import TaskSpec
from rqueue.task.task import Tokens

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from rqueue.archive.connection import Archive
    from rqueue.clock import Clock
    from rqueue.task.state import State
    from rqueue.task.task import Task


NEWEST = "NOT EXISTS (SELECT FROM rqueue.task_lives n WHERE n.id = t.id AND n.life > t.life)"
# A payload that PostgreSQL cannot hold as JSON is searched as it is written.
PAYLOAD = "coalesce((t.spec -> 'p')::text, encode(t.definition, 'escape'))"
# What may come after the backslash of an escape in JSON, and all that comes before what is none.
ESCAPED = frozenset("bfnrtu\\")
ALIGNED = r"(^|[^\\])(\\\\)*"
# What a regular expression could take for its own.
ODD = re.compile(r"[^\w\s]")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter; all given conditions must match. `since` and `until` bound the end of the task,
    `until` is excluded. `agent` is the task's agent or the worker that ran it. `text` occurs in the
    error or the payload, ignoring case. With `all_lives`, all lives match, not only the newest.
    """

    states: frozenset[State] = frozenset()
    type: str | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    agent: str | None = None
    worker: str | None = None
    dag: UUID | None = None
    all_lives: bool = False

    def condition(self, queue: str) -> tuple[str, dict[str, object]]:
        """The condition for rows `t` of rqueue.task_lives, and its parameters."""
        given: dict[str, object] = {"queue": queue}
        parts = ["t.queue = %(queue)s"]
        for name, (value, part) in self.tests().items():
            if value is not None:
                given[name] = value
                parts.append(part)
        if self.text is not None:
            part, words = containing(self.text)
            given |= words
            parts.append(part)
        if not self.all_lives:
            parts.append(NEWEST)
        return " AND ".join(parts), given

    def tests(self) -> dict[str, tuple[object, str]]:
        """What is compared with a column: the value, None for any, and how."""
        states = [state.value for state in sorted(self.states)] or None
        return {
            "states": (states, "t.state = ANY(%(states)s)"),
            "type": (self.type, "t.type = %(type)s"),
            "tags": (None if self.tag is None else [self.tag], "t.tags @> %(tags)s::text[]"),
            "since": (self.since, "t.finished_at >= %(since)s"),
            "until": (self.until, "t.finished_at < %(until)s"),
            "agent": (self.agent, "(t.agent_name = %(agent)s OR t.worker = %(agent)s)"),
            "worker": (self.worker, "t.worker = %(worker)s"),
            # A task that is alone is a DAG of one, by its own id.
            "dag": (self.dag, "(t.dag_id = %(dag)s OR t.id = %(dag)s)"),
        }


def containing(text: str) -> tuple[str, dict[str, object]]:
    """The condition that a text stands in the error, in a text of the payload, or, where it has
    quotes and is itself no escape, across the payload as JSON is written.
    """
    quoted = in_json(text)
    given: dict[str, object] = {"text": like(text), "quoted": like(quoted)}
    within = f"{PAYLOAD} ILIKE %(quoted)s ESCAPE '\\'"
    if quoted[0].lower() in ESCAPED:
        # Asked only where the first is true: an "n" may be that of a \\n.
        given["aligned"] = ALIGNED + ODD.sub(r"\\\g<0>", quoted)
        within = f"({within} AND {PAYLOAD} ~* %(aligned)s)"
    found = ["t.error ILIKE %(text)s ESCAPE '\\'", within]
    if quoted != text and "\\" not in text:
        found.append(f"{PAYLOAD} ILIKE %(text)s ESCAPE '\\'")
    return f"({' OR '.join(found)})", given


def like(text: str) -> str:
    """A pattern that finds the text as it stands."""
    for odd in ("\\", "%", "_"):
        text = text.replace(odd, f"\\{odd}")
    return f"%{text}%"


def in_json(text: str) -> str:
    """The text as it stands within a text of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


# Keys that are found together; their contents come in portions of so many tasks, or about so many
# bytes: others of the same event loop have their turn in between.
PAGE = 1_000
PORTION = 200
BYTES = 8_000_000
# Ids in one question.
TOGETHER = 1_000
# What a task had cost by the end of a life is asked of all that is there: a record does not know
# what was told later.
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
    """One life, when it ended, and how many bytes are kept of it."""

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
        """A task by our id or by the caller's own, in its newest life or the one that is named."""
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
        """A task as it ended each time, the newest first; none where it is not in the archive."""
        newest = await self.get(task)
        return [] if newest is None else await self.lives_of(newest.id.uuid, None, limit=MANY_LIVES)

    async def lives_of(self, id: UUID, life: int | None, *, limit: int) -> list[Task]:
        """The newest lives of an id, or the one that is named."""
        given = {"queue": self.queue, "id": id, "life": life, "limit": limit}
        return self.tasks_of(await self.rows(LIVES, given))

    async def find(self, wanted: Wanted, *, limit: int | None = None) -> AsyncIterator[Task]:
        """The tasks that fit, the last that ended first, read as they are walked: what ends
        meanwhile may be missed, and nothing comes twice.
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

    async def count(self, wanted: Wanted) -> int:
        """How many tasks fit."""
        condition, given = wanted.condition(self.queue)
        statement = f"SELECT count(*) FROM rqueue.task_lives t WHERE {condition}"
        ((number,),) = await self.search(statement, given)
        return int(number)

    async def keys(self, wanted: Wanted, last: Key | None, limit: int) -> list[Key]:
        """The next page of lives that fit, behind the last of the page before."""
        condition, given = wanted.condition(self.queue)
        given["limit"] = limit
        if last is not None:
            condition += AFTER
            given |= {"ms": last.finished_ms, "id": last.id, "life": last.life}
        rows = await self.search(KEYS.replace("{condition}", condition), given)
        return [Key(*row) for row in rows]

    async def contents(self, keys: Sequence[Key]) -> list[Task]:
        """The tasks of some lives; those that were deleted meanwhile are left out."""
        ids, lives = [key.id for key in keys], [key.life for key in keys]
        return self.tasks_of(await self.search(CONTENTS, {"ids": ids, "lives": lives}))

    async def completed(self, shas: Sequence[str]) -> dict[str, TaskId]:
        """The completed tasks that are known by these hashes of their idempotency keys."""
        found: dict[str, TaskId] = {}
        for start in range(0, len(shas), TOGETHER):
            page = list(shas[start : start + TOGETHER])
            rows = await self.rows(COMPLETED, {"queue": self.queue, "shas": page})
            found |= {sha: task_id(id) for sha, id in rows}
        return found

    async def rows(self, statement: str, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """The rows of a statement that goes by an index, and so is answered like any call."""
        return await self.answer(self.archive.timeout_sec, statement, given)

    async def search(self, statement: str, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """The rows of a statement that may have to look at every row there is."""
        return await self.answer(SEARCH_SEC, statement, given)

    async def answer(
        self, limit_sec: float, statement: str, given: Mapping[str, object]
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement, if they are there in time."""
        async with self.archive.within(limit_sec) as connection:
            cursor = await connection.execute(statement.encode(), given, binary=True)
            return list(await cursor.fetchall())

    def tasks_of(self, rows: Sequence[tuple[Any, ...]]) -> list[Task]:
        """The rows as tasks; one that has no state that this release knows is left out."""
        now_ms = self.clock.now_ms()
        found = (self.task_of(row, now_ms) for row in rows)
        return [task for task in found if task is not None]

    def task_of(self, row: Sequence[Any], now_ms: int) -> Task | None:
        """One row as the Task that Redis showed."""
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
        """How fast a task aged: of its lane no more than that is asked."""
        if b'"priority_boost_per_minute"' not in definition:
            return self.rate
        own = TaskSpec.salvage(definition)[0].priority_boost_per_minute
        return self.rate if own is None else own


def portions(keys: Sequence[Key]) -> Iterator[list[Key]]:
    """Keys in groups that are read together."""
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
    """Our id of a row's."""
    return TaskId.from_ulid(ulid_of(id.int))


# The last life of each task.
LAST = """
SELECT DISTINCT ON (id) id, life, state, definition, result, record, dag_id
FROM rqueue.task_lives WHERE queue = %(queue)s AND {}
ORDER BY id, life DESC
"""
BY_ID, BY_DAG = LAST.format("id = ANY(%(ids)s)"), LAST.format("dag_id = %(dag)s")
DAG = "SELECT facts FROM rqueue.dags WHERE queue = %s AND id = %s"
KEPT = {"title": "title", "created_by": "created_by", "on_failure": "on_failure", "spawn": "spawn"}


@dataclass(frozen=True, slots=True)
class Past:
    """The last life of a task: how it ended, what it was asked, and what it returned."""

    id: TaskId
    life: int
    state: str
    definition: bytes
    result: bytes
    record: bytes
    dag: DagId | None = None

    def spec(self) -> tuple[TaskSpec, str | None]:
        """What was asked for, with all that it came after; and why that cannot be read, if so."""
        found: dict[str, Any] = json.loads(self.record)
        parents = [str(one).encode(errors="replace") for one in found.get("parents", ())]
        asked = Stored(
            dict(found.get("task", {})), self.definition, dependency_list=parents
        ).requested()
        return asked["spec"], asked["unreadable"]

    @property
    def is_stowed(self) -> bool:
        """Whether what it returned is an artifact: too large to be a part of anything else."""
        try:
            return placeholder_in(self.result) is not None
        except InvalidTask:
            return True

    def output(self) -> Any:
        """What it returned."""
        return decode(self.result, field="result") if self.result else None


class DagPast(NamedTuple):
    """What was said of a DAG as a whole, which was to follow it, and how many tasks it had."""

    spec: DagSpec
    following: str | None
    total: int


async def by_id(archive: Archive, queue: str, tasks: Sequence[TaskId]) -> dict[TaskId, Past]:
    """The ended tasks of these ids that are there."""
    return await read(archive, BY_ID, {"queue": queue, "ids": [task.uuid for task in tasks]})


async def by_dag(archive: Archive, queue: str, dag: DagId) -> dict[TaskId, Past]:
    """The ended tasks of a DAG, in the order of their ids."""
    return await read(archive, BY_DAG, {"queue": queue, "dag": dag.uuid})


async def read(archive: Archive, statement: str, facts: dict[str, Any]) -> dict[TaskId, Past]:
    """The tasks that a statement finds."""
    async with archive.within(SEARCH_SEC) as connection:
        cursor = await connection.execute(statement.encode(), facts)
        found = [past_in(row) for row in await cursor.fetchall()]
    return {past.id: past for past in found}


def past_in(row: Sequence[Any]) -> Past:
    """A row as it is read."""
    id, life, state, definition, result, record, dag = row
    place = None if dag is None else DagId.from_ulid(TaskId.parse(dag).ulid)
    return Past(TaskId.parse(id), life, state, definition, result or b"", record, place)


async def dag_past(archive: Archive, queue: str, dag: DagId) -> DagPast:
    """What is known of a DAG as a whole; nothing without a row."""
    async with archive.connection() as connection:
        cursor = await connection.execute(DAG, [queue, dag.uuid])
        row = await cursor.fetchone()
    facts: dict[str, str] = row[0] if row else {}
    given: dict[str, Any] = {ours: facts[name] for name, ours in KEPT.items() if facts.get(name)}
    if facts.get("threshold"):
        given["failure_threshold"] = float(facts["threshold"])
    if facts.get("budget"):
        given["budget_usd"] = int(facts["budget"]) / MICRO
    total = number_in(facts, "total") or 0
    return DagPast(DagSpec.parse(given), facts.get("follow") or None, total)
