"""The stand: servers of their own, a plain client, a queue, and the way to count."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
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
class Stand:
    """One server under measurement."""

    server: Server
    client: Any
    queue: Queue

    @property
    def keys(self) -> Keys:
        return self.queue._internals.shard.keys

    def beside(self, name: str) -> Stand:
        """Another queue on the same server."""
        return Stand(self.server, self.client, queue_of(self.server, name))

    async def empty(self) -> None:
        """Forgets all data; what was counted before does not weigh on what comes after."""
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


def stand_of(server: Server) -> Stand:
    """A stand on a server."""
    client = aredis.Redis.from_url(server.url, protocol=2)
    return Stand(server, client, queue_of(server, NAME))


def queue_of(server: Server, name: str) -> Queue:
    """A queue with its archive on, everything else as it comes."""
    return Queue(name, url=server.url, archive="postgres")


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    """How long some work takes, in seconds."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ours, theirs, and what is to be reached, if anything."""

    what: str
    unit: str
    ours: float
    raw: float | None
    target: str
    ratio: float
    reached: bool

    def cells(self) -> list[str]:
        raw = "" if self.raw is None else f"{self.raw:,.1f}"
        verdict = "" if not self.target else "reached" if self.reached else "MISSED"
        return [self.what, f"{self.ours:,.1f}", raw, self.unit, f"{self.ratio:.2f}", self.target,
                verdict]  # fmt: skip


def at_most(what: str, unit: str, pairs: list[tuple[float, float]], limit: float) -> Row:
    """A row whose ratio must not exceed a limit: medians of alternating runs."""
    ours, raw, ratio = middle(pairs)
    return Row(what, unit, ours, raw, f"<= {limit:g}", ratio, ratio <= limit)


def at_least(what: str, unit: str, pairs: list[tuple[float, float]], limit: float) -> Row:
    """A row whose ratio must reach a limit: medians of alternating runs."""
    ours, raw, ratio = middle(pairs)
    return Row(what, unit, ours, raw, f">= {limit:g}", ratio, ratio >= limit)


def middle(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The medians of both sides, and of the ratio within each run."""
    return (
        median(ours for ours, _ in pairs),
        median(raw for _, raw in pairs),
        median(ours / raw for ours, raw in pairs),
    )
