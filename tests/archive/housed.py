"""A queue with an archive of its own, and an archiver that is ticked by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rqueue import Queue, TaskId
from rqueue.clock import SYSTEM
from rqueue.services.archiver import Archiver
from rqueue.services.roster import archiver_of
from tests.archive.kept import Kept, opened
from tests.house import House, build
from tests.postgres import Database
from tests.servers import Server


@dataclass(slots=True)
class Housed:
    """A house, its archive, and who brings what ended from one to the other."""

    house: House
    kept: Kept
    archiver: Archiver

    @property
    def queue(self) -> Queue:
        return self.house.queue

    async def ended(self, type: str = "code", **options: Any) -> TaskId:
        """A task that has completed, not archived yet."""
        lease = await self.house.running(type, **options)
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
        await self.house.client.flushall()


@asynccontextmanager
async def housed(server: Server, database: Database, **settings: Any) -> AsyncIterator[Housed]:
    """A house with an archive."""
    client, connection = server.client(), server.connection()
    async with opened(database) as kept:
        house = build(connection, client, archive="postgres", postgres_url=database.url, **settings)
        archive = house.queue.runtime.archive
        assert archive is not None
        archiver = archiver_of(house.queue.place, archive, "a1")
        assert SYSTEM is house.queue.clock
        try:
            yield Housed(house, kept, archiver)
        finally:
            await house.queue.aclose()
            await archive.aclose()
            await connection.aclose()
            await client.aclose()
