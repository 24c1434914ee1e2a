"""A queue whose ended tasks are archived on demand and read from the archive."""

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
class ReaderHarness:
    """One queue, with its Redis and its archive."""

    harness: Harness
    database: Database

    @property
    def queue(self) -> Queue:
        return self.harness.queue

    async def archive(self) -> int:
        """Archives all ended tasks. Returns the number of lives."""
        archive = self.queue._internals.runtime.archive
        assert archive is not None
        done = await archiver_of(self.queue._internals.service_parts, archive, "archiver").tick()
        return done.tasks

    async def forget(self) -> None:
        """Deletes all data in Redis, as if it had expired."""
        await self.harness.client.flushdb()

    async def moved(self) -> None:
        """Archives all ended tasks and deletes all data in Redis."""
        await self.archive()
        await self.forget()

    async def lease(self, type: str = "code", payload: object = None, **options: Any) -> Lease:
        """Returns the lease of a started task."""
        await self.queue.enqueue(type, payload, **options)
        agents = [options["agent_name"]] if "agent_name" in options else []
        (lease,) = await self.queue.claim(worker="w1", types=[type], agents=agents)
        await lease.start()
        return lease

    async def completed(self, type: str = "code", result: object = None, **options: Any) -> Task:
        """Returns a completed task as read from Redis."""
        lease = await self.lease(type, **options)
        await lease.complete(result)
        return await self.queue.get(lease.id)

    async def dead(self, type: str = "code", error: str = "it broke", **options: Any) -> Task:
        """Returns a dead task as read from Redis."""
        lease = await self.lease(type, **options)
        await lease.fail("error", error, permanent=True)
        return await self.queue.get(lease.id)

    def sql(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        return self.database.psql(text, *values)


@asynccontextmanager
async def reader_harness(
    server: Server, database: Database, *, migrated: bool = True, **settings: Any
) -> AsyncIterator[ReaderHarness]:
    """Opens a queue with its archive on two servers."""
    async with opened(server, postgres_url=database.url, **settings) as harness:
        archive = harness.queue._internals.runtime.archive
        assert archive is not None
        if migrated:
            await migrate_all(archive, harness.queue._internals.clock.now())
        yield ReaderHarness(harness, database)
