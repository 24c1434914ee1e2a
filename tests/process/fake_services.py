"""Services and a clock that a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from rqueue.clock import SYSTEM, SystemClock
from rqueue.process.scheduler import Owner, Scheduler
from rqueue.process.service import Service
from tests.harness import Harness

TTL_SEC = 0.3


class Ticking:
    """A service whose ticks a test can wait for, without a clock."""

    def __init__(self, name: str = "ticking", *, interval_sec: float = 0.001) -> None:
        self.name = name
        self.interval_sec = interval_sec
        self.ticks = 0
        self.faults: list[BaseException] = []
        self.changed = asyncio.Condition()

    async def tick(self) -> object:
        self.ticks += 1
        async with self.changed:
            self.changed.notify_all()
        if self.faults:
            raise self.faults.pop(0)
        return None

    async def ticked(self, times: int) -> None:
        """Returns after so many more ticks."""
        wanted = self.ticks + times
        async with self.changed:
            await self.changed.wait_for(lambda: self.ticks >= wanted)


class Slow:
    """A service whose tick never ends by itself."""

    name = "slow"
    interval_sec = 0.001

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cut = asyncio.Event()

    async def tick(self) -> object:
        self.begun.set()
        try:
            return await asyncio.Event().wait()
        finally:
            self.cut.set()


class Shifted(SystemClock):
    """The machine's clock with an offset that a test sets."""

    __slots__ = ("by_sec",)

    def __init__(self) -> None:
        self.by_sec = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.by_sec


def candidate(
    harness: Harness,
    owner: str,
    *services: Service,
    ttl_sec: float = TTL_SEC,
    clock: SystemClock | None = None,
) -> Scheduler:
    """A scheduler of the harness's queue."""
    return Scheduler(
        harness.queue._internals.shard,
        services,
        owner=Owner(owner, ttl_sec),
        clock=clock or SYSTEM,
        random=Random(7),
    )


@asynccontextmanager
async def running(scheduler: Scheduler) -> AsyncIterator[Callable[[], None]]:
    """Runs the scheduler; the yielded event stops it, as does the end of the block."""
    stop = asyncio.Event()
    work = asyncio.create_task(scheduler.run(stop))
    try:
        yield stop.set
    finally:
        stop.set()
        await work
