"""A queue whose archive is a real PostgreSQL, with helpers that end tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rqueue import Lease, TaskId
from rqueue.archive.archiver import Archiver
from rqueue.archive.connection import WORK_SEC, Archive
from rqueue.archive.schema import migrate_all
from rqueue.archive.writer import Writer, extras_of
from rqueue.clock import SYSTEM
from tests.harness import Harness, opened
from tests.postgres import Database
from tests.servers import Server

Found = list[tuple[Any, ...]]


@dataclass(slots=True)
class ArchiverHarness:
    """A queue, its archive, its archiver, and queries of the tables."""

    harness: Harness
    archive: Archive
    database: Database
    archiver: Archiver

    def another(self, name: str = "a2") -> Archiver:
        """Returns another archiver of the same queue."""
        queue = self.harness.queue
        writer = Writer(self.archive, queue.name, SYSTEM, extras_of(queue.settings))
        return Archiver(queue._internals.shard, queue._internals.runtime.reader, writer, name=name)

    def query(self, statement: str, *values: object) -> Found:
        """Returns the rows of a statement."""
        return self.database.psql(statement, *values)

    def count(self, table: str = "task_lives") -> int:
        ((number,),) = self.query(f"SELECT count(*) FROM rqueue.{table}")
        return int(number)

    async def outbox(self) -> int:
        """Returns the number of entries in the outbox."""
        found: int = await self.harness.client.xlen(self.harness.keys.outbox())
        return found

    async def completed(self, result: Any = None, **options: Any) -> TaskId:
        lease = await self.harness.running(**options)
        await lease.complete(result)
        return lease.id

    async def dead(self, **options: Any) -> Lease:
        lease = await self.harness.running(**{"max_attempts": 1, **options})
        await lease.fail("error", "boom")
        return lease


@asynccontextmanager
async def archiver_harness(
    server: Server, database: Database, *, work_sec: float = WORK_SEC, **settings: Any
) -> AsyncIterator[ArchiverHarness]:
    """Opens a queue on these servers, with the tables of its archive."""
    url = database.url
    async with opened(server, archive="postgres", postgres_url=url, **settings) as harness:
        archive = Archive(lambda: url, timeout_sec=2, work_sec=work_sec)
        await migrate_all(archive, SYSTEM.now())
        found = ArchiverHarness(harness, archive, database, archiver=None)  # type: ignore[arg-type]
        found.archiver = found.another("a1")
        try:
            yield found
        finally:
            await archive.aclose()
