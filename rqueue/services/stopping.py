"""Waiting that ends when one is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def paused(stop: asyncio.Event, seconds: float) -> None:
    """Returns after so long, or when told to stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def unless(
    stop: asyncio.Event, work: Coroutine[Any, Any, T], within_sec: float | None
) -> T | None:
    """What the work gives; None when told to stop, or when it takes too long."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait(
            {working, stopping}, timeout=within_sec, return_when=asyncio.FIRST_COMPLETED
        )
        return working.result() if working.done() else None
    finally:
        await ended([working, stopping])


async def ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels tasks and waits until they are over."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
