"""A worker that runs beside a test, and helpers to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rqueue import Queue, State
from rqueue.worker.worker import Worker
from tests.harness import Harness

# What a test waits for comes about at once; on a busy machine at once may be long.
PATIENCE_SEC = 60.0


@asynccontextmanager
async def working(queue: Queue, **options: Any) -> AsyncIterator[Worker]:
    """Runs a worker during the block."""
    worker = queue.worker(name="w1", **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_SEC)


async def ended(queue: Queue, task: str, state: State) -> Any:
    """The task, when it is in this state."""
    async with asyncio.timeout(PATIENCE_SEC):
        while (found := await queue.get(task)).state is not state:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def until(holds: Any, within_sec: float = PATIENCE_SEC) -> None:
    """Returns when a condition holds."""
    async with asyncio.timeout(within_sec):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_counts(harness: Harness, state: State, number: int) -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while (await harness.queue.counts())[state] != number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
