"""An archive into which a test writes rows directly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rqueue.archive.connection import Archive
from rqueue.archive.schema import migrate_all
from rqueue.clock import SYSTEM
from rqueue.task.ids import TaskId, new_task_id
from tests.postgres import Database

QUEUE = "sales"
NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)

LIFE = """
INSERT INTO rqueue.task_lives (id, life, queue, type, state, dag_id, agent_name, worker,
  created_at, finished_at, discarded_at, definition, spec, output, record, digest, archived_at)
VALUES (%s, %s, %s, 'code', %s, %s, %s, %s, %s, %s, %s, '{"t":"code"}', '{"t":"code","p":{"x":1}}',
  '{"y":2}', '{}', '0', coalesce(%s, now()))
"""
FAILURE = """
INSERT INTO rqueue.failed_attempts (task_id, epoch, attempt, queue, type, agent, reason, error, at)
VALUES (%s, %s, 1, %s, 'code', %s, 'error', 'broken', %s)
"""


@dataclass(slots=True)
class ArchiveTables:
    """An archive, with methods that write and read its rows."""

    archive: Archive
    database: Database
    given: list[TaskId] = field(default_factory=list)

    def life(
        self,
        finished: datetime,
        state: str = "COMPLETED",
        *,
        task: TaskId | None = None,
        life: int = 1,
        queue: str = QUEUE,
        **facts: Any,
    ) -> TaskId:
        """Writes the row of an ended life."""
        id = task or new_task_id()
        created = facts.get("created", finished)
        values = (
            id.uuid, life, queue, state, facts.get("dag"), facts.get("agent"),
            facts.get("worker", "w1"), created, finished, facts.get("discarded"),
            facts.get("archived"),
        )  # fmt: skip
        self.database.psql(LIFE, *values)
        return id

    def failure(self, task: TaskId, at: datetime, *, epoch: int = 1, agent: str = "w1") -> None:
        """Writes the row of a failed attempt."""
        self.database.psql(FAILURE, task.uuid, epoch, QUEUE, agent, at)

    def dag(self, finished: datetime | None) -> UUID:
        """Writes the row of a DAG."""
        id = new_task_id().uuid
        self.database.psql(
            "INSERT INTO rqueue.dags (id, queue, status, finished_at, facts)"
            " VALUES (%s, %s, 'running', %s, '{}')", id, QUEUE, finished,
        )  # fmt: skip
        return id

    def lives(self) -> set[tuple[TaskId, int]]:
        """Returns the archived lives."""
        rows = self.database.psql("SELECT id, life FROM rqueue.task_lives")
        return {(TaskId.parse(str(id)), int(str(life))) for id, life in rows}

    def number(self, table: str) -> int:
        """Returns the number of rows of a table."""
        ((number,),) = self.database.psql(f"SELECT count(*) FROM rqueue.{table}")
        return int(str(number))


@asynccontextmanager
async def opened(database: Database) -> AsyncIterator[ArchiveTables]:
    """Opens an archive with empty tables."""
    archive = Archive(lambda: database.url, own=True)
    await migrate_all(archive, SYSTEM.now())
    try:
        yield ArchiveTables(archive, database)
    finally:
        await archive.aclose()
