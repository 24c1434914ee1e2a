"""A queue with an archive of its own, and an archiver that is ticked by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rqueue import Queue, TaskId
from rqueue.archive.archiver import Archiver
from rqueue.clock import SYSTEM
from rqueue.services import archiver_of
from tests.archive.kept import Kept, opened
from tests.harness import Harness, build
from tests.postgres import Database
from tests.servers import Server


@dataclass(slots=True)
class ArchivedHarness:
    """A house, its archive, and who brings what ended from one to the other."""

    harness: Harness
    kept: Kept
    archiver: Archiver

    @property
    def queue(self) -> Queue:
        return self.harness.queue

    async def ended(self, type: str = "code", **options: Any) -> TaskId:
        """A task that has completed, not archived yet."""
        lease = await self.harness.running(type, **options)
        await lease.complete({"done": type})
        return lease.id

    async def run(self, *, fail: tuple[str, ...] = (), output: Any = None) -> list[str]:
        """Runs all that can run by hand; the names (or types) in their order."""
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
        """Archives all, and lets Redis forget it, as time would."""
        await self.archiver.tick()
        await self.harness.client.flushall()


@asynccontextmanager
async def housed(
    server: Server, database: Database, **settings: Any
) -> AsyncIterator[ArchivedHarness]:
    """A house with an archive."""
    client, connection = server.client(), server.connection()
    async with opened(database) as kept:
        harness = build(
            connection, client, archive="postgres", postgres_url=database.url, **settings
        )
        archive = harness.queue._internals.runtime.archive
        assert archive is not None
        archiver = archiver_of(harness.queue._internals.service_parts, archive, "a1")
        assert SYSTEM is harness.queue._internals.clock
        try:
            yield ArchivedHarness(harness, kept, archiver)
        finally:
            await harness.queue.aclose()
            await archive.aclose()
            await connection.aclose()
            await client.aclose()
