"""A queue with its own archive, and an archiver whose ticks are called by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rqueue import Queue, TaskId
from rqueue.archive.archiver import Archiver
from rqueue.clock import SYSTEM
from rqueue.services import archiver_of
from tests.archive.tables import ArchiveTables, opened
from tests.harness import Harness, build
from tests.postgres import Database
from tests.servers import Server


@dataclass(slots=True)
class ArchivedHarness:
    """A queue, the tables of its archive, and its archiver."""

    harness: Harness
    tables: ArchiveTables
    archiver: Archiver

    @property
    def queue(self) -> Queue:
        return self.harness.queue

    async def ended(self, type: str = "code", **options: Any) -> TaskId:
        """Completes a task, without archiving it, and returns its id."""
        lease = await self.harness.running(type, **options)
        await lease.complete({"done": type})
        return lease.id

    async def run(self, *, fail: tuple[str, ...] = (), output: Any = None) -> list[str]:
        """Claims and runs all ready tasks. Returns their names or types in order."""
        ran = []
        while leases := await self.queue.claim(worker="w1", n=1):
            (lease,) = leases
            name = lease.task.spec.name or lease.task.type
            ran.append(name)
            await lease.start()
            if name in fail:
                await lease.fail(permanent=True)
            else:
                await lease.complete(output or f"{name} out")
        return ran

    async def forget(self) -> None:
        """Archives all ended tasks and deletes all data in Redis, as if it had expired."""
        await self.archiver.tick()
        await self.harness.client.flushall()


@asynccontextmanager
async def archived_harness(
    server: Server, database: Database, **settings: Any
) -> AsyncIterator[ArchivedHarness]:
    """Opens a queue with an archive on these servers."""
    client, connection = server.client(), server.connection()
    async with opened(database) as tables:
        harness = build(
            connection, client, archive="postgres", postgres_url=database.url, **settings
        )
        archive = harness.queue._internals.runtime.archive
        assert archive is not None
        archiver = archiver_of(harness.queue._internals.service_parts, archive, "a1")
        assert SYSTEM is harness.queue._internals.clock
        try:
            yield ArchivedHarness(harness, tables, archiver)
        finally:
            await harness.queue.aclose()
            await archive.aclose()
            await connection.aclose()
            await client.aclose()
