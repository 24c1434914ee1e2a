"""Ended tasks as the archive has them, for who wants to begin them anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.dags import number_in
from rqueue.errors import InvalidTask
from rqueue.model.artifact import stowed_in
from rqueue.model.codec import decode
from rqueue.model.dag import DagSpec
from rqueue.model.ids import DagId, TaskId
from rqueue.model.money import MICRO
from rqueue.store.stored import Stored

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive
    from rqueue.model.spec import TaskSpec

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
        asked = Stored(dict(found.get("task", {})), self.definition, many=parents).asked()
        return asked["spec"], asked["unreadable"]

    @property
    def is_stowed(self) -> bool:
        """Whether what it returned is an artifact: too large to be a part of anything else."""
        try:
            return stowed_in(self.result) is not None
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
