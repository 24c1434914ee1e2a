"""A house whose ended tasks go into a PostgreSQL, and the hands to bring them there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rqueue import Lease, Queue, Task
from rqueue.archive.schema import migrate_all
from rqueue.services import archiver_of
from tests.harness import Harness, opened
from tests.postgres import Database
from tests.servers import Server


@dataclass(slots=True)
class Library:
    """One queue, its Redis and its archive."""

    harness: Harness
    database: Database

    @property
    def queue(self) -> Queue:
        return self.harness.queue

    async def archive(self) -> int:
        """Brings all that has ended into the archive; how many lives."""
        archive = self.queue._internals.runtime.archive
        assert archive is not None
        done = await archiver_of(self.queue._internals.service_parts, archive, "librarian").tick()
        return done.tasks

    async def forget(self) -> None:
        """Lets Redis forget everything, as time would."""
        await self.harness.client.flushdb()

    async def moved(self) -> None:
        """Brings all that has ended into the archive, and out of Redis."""
        await self.archive()
        await self.forget()

    async def lease(self, type: str = "code", payload: object = None, **options: Any) -> Lease:
        """A task that a worker has started."""
        await self.queue.enqueue(type, payload, **options)
        agents = [options["agent_name"]] if "agent_name" in options else []
        (lease,) = await self.queue.claim(worker="w1", types=[type], agents=agents)
        await lease.start()
        return lease

    async def completed(self, type: str = "code", result: object = None, **options: Any) -> Task:
        """A task that has completed, as Redis shows it."""
        lease = await self.lease(type, **options)
        await lease.complete(result)
        return await self.queue.get(lease.id)

    async def dead(self, type: str = "code", error: str = "it broke", **options: Any) -> Task:
        """A task that is dead, as Redis shows it."""
        lease = await self.lease(type, **options)
        await lease.fail("error", error, permanent=True)
        return await self.queue.get(lease.id)

    def sql(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        return self.database.psql(text, *values)


@asynccontextmanager
async def founded(
    server: Server, database: Database, *, migrated: bool = True, **settings: Any
) -> AsyncIterator[Library]:
    """A library on two servers, left in good order."""
    async with opened(server, postgres_url=database.url, **settings) as harness:
        archive = harness.queue._internals.runtime.archive
        assert archive is not None
        if migrated:
            await migrate_all(archive, harness.queue._internals.clock.now())
        yield Library(harness, database)
