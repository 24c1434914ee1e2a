"""A queue with all its parts on one server, with methods that age leases and delays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from rqueue import Lease, Queue, Task
from rqueue.clock import SYSTEM
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.runtime import assemble
from rqueue.settings.load import Settings
from rqueue.store.connection import Connection
from tests.servers import Server

NAME = "sales"


@dataclass(slots=True)
class Harness:
    """One queue, its services, and a plain client to read keys."""

    queue: Queue
    promoter: Promoter
    reaper: Reaper
    client: Any

    @property
    def keys(self) -> Any:
        return self.queue._internals.shard.keys

    async def claimed(self, type: str = "code", **options: Any) -> Lease:
        """A task that a worker has claimed."""
        await self.queue.enqueue(type, {}, **options)
        (lease,) = await self.queue.claim(worker="w1", types=[type])
        return lease

    async def running(self, type: str = "code", **options: Any) -> Lease:
        """A task that a worker has started."""
        lease = await self.claimed(type, **options)
        await lease.start()
        return lease

    async def task(self, task: str) -> Task:
        return await self.queue.get(task)

    async def age(self, lease: Lease, seconds: float) -> None:
        """Ages a lease as if it had not been renewed for that time."""
        entry = await self.client.hget(self.keys.task(lease.id.ulid), "entry")
        await self.client.xclaim(
            self.keys.ready(), "workers", lease.worker, 0, [entry],
            idle=round(seconds * 1000), justid=True,
        )  # fmt: skip

    async def make_due(self, task: str) -> None:
        """Makes a delayed task due."""
        await self.client.zadd(self.keys.delayed(), {task[-26:]: 1})

    async def dump(self) -> dict[str, Any]:
        """Every key of the queue with its content."""
        found: dict[str, Any] = {}
        for key in sorted(await self.client.keys("rq:*")):
            found[key.decode()] = await self.content(key)
        return found

    async def content(self, key: bytes) -> Any:
        """The content of a key of any type."""
        match await self.client.type(key):
            case b"string":
                return await self.client.get(key)
            case b"hash":
                return await self.client.hgetall(key)
            case b"set":
                return await self.client.smembers(key)
            case b"zset":
                return await self.client.zrange(key, 0, -1, withscores=True)
            case b"list":
                return await self.client.lrange(key, 0, -1)
            case _:
                entries = await self.client.xrange(key)
                try:
                    pending = await self.client.xpending_range(key, "workers", "-", "+", 1000)
                except Exception:  # no group yet
                    pending = []
                return entries, [(held["message_id"], held["consumer"]) for held in pending]


@asynccontextmanager
async def opened(server: Server, **settings: Any) -> AsyncIterator[Harness]:
    """A harness on a server, closed at the end."""
    client, connection = server.client(), server.connection()
    harness = build(connection, client, **settings)
    try:
        yield harness
    finally:
        await harness.queue.aclose()
        await connection.aclose()
        await client.aclose()


def build(connection: Connection, client: Any, **settings: Any) -> Harness:
    """A harness on a connection."""
    chosen = Settings(name=NAME, url="redis://nowhere", **settings)
    queue = Queue(NAME, runtime=assemble(chosen, connection))
    reaper = Reaper(
        queue._internals.shard,
        queue._internals.runtime.reader,
        chosen,
        clock=SYSTEM,
        random=Random(7),
    )
    return Harness(queue, Promoter(queue._internals.shard), reaper, client)
