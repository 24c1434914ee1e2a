"""A worker beside a test, and the ways to wait for what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rqueue import Queue, State
from rqueue.services.worker import Worker
from tests.house import House


@asynccontextmanager
async def working(queue: Queue, **options: Any) -> AsyncIterator[Worker]:
    """A worker that runs beside the test and has ended after it."""
    worker = queue.worker(name="w1", **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, 10)


async def ended(queue: Queue, task: str, state: State) -> Any:
    """The task, when it is in this state."""
    async with asyncio.timeout(10):
        while (found := await queue.get(task)).state is not state:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def until(holds: Any, within_sec: float = 10) -> None:
    """Returns when something holds."""
    async with asyncio.timeout(within_sec):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_counts(house: House, state: State, number: int) -> None:
    async with asyncio.timeout(10):
        while (await house.queue.counts())[state] != number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
