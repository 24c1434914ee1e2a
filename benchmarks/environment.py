"""What each measurement runs on: a server, a redis-py client and a queue."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis import asyncio as aredis

from rqueue import Queue
from tests import servers

if TYPE_CHECKING:
    from rqueue.store.keys import Keys
    from tests.servers import Server

RUNS = 5
NAME = "bench"
PAYLOAD = {"data": "x" * 89}
BODY = b'{"data":"' + b"x" * 89 + b'"}'


@dataclass(slots=True)
class Environment:
    """One server under measurement, with a client and a queue."""

    server: Server
    client: Any
    queue: Queue

    @property
    def keys(self) -> Keys:
        return self.queue._internals.shard.keys

    def with_queue(self, name: str) -> Environment:
        """The same server with another queue."""
        return Environment(self.server, self.client, queue_of(self.server, name))

    async def empty(self) -> None:
        """Deletes all data, so that a measurement does not depend on the one before it."""
        await self.client.flushall()

    async def cpu(self) -> float:
        """The server's processor time so far, in seconds."""
        info = await self.client.info("cpu")
        return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])

    async def spent(self, work: Callable[[], Awaitable[None]]) -> float:
        """The server's processor time for some work, in seconds."""
        before = await self.cpu()
        await work()
        return await self.cpu() - before


@contextmanager
def server_of(kind: str) -> Iterator[Server]:
    """A fresh server without persistence."""
    folder = Path(tempfile.mkdtemp(prefix="rqueue-bench-"))
    server = servers.start(kind, folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def environment_of(server: Server) -> Environment:
    """An environment on a server."""
    client = aredis.Redis.from_url(server.url, protocol=2)
    return Environment(server, client, queue_of(server, NAME))


def queue_of(server: Server, name: str) -> Queue:
    """A queue with its archive on and all other settings at their defaults."""
    return Queue(name, url=server.url, archive="postgres")


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    """How long some work takes, in seconds."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start
