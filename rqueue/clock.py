"""The clock: the only module that reads the system time. Other modules receive a Clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar


class Clock(Protocol):
    """A source of time. Tests use one that they move by hand."""

    def now(self) -> datetime:
        """Returns the current time as an aware datetime in UTC."""
        ...

    def now_ms(self) -> int:
        """Returns the current time in milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Returns seconds that never decrease; only differences have a meaning."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now(self) -> datetime:
        """Returns the current time as an aware datetime in UTC."""
        return datetime.now(UTC)

    def now_ms(self) -> int:
        """Returns the current time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Returns seconds that never decrease; only differences have a meaning."""
        return time.monotonic()


SYSTEM: Clock = SystemClock()
T = TypeVar("T")


async def paused(stop: asyncio.Event, seconds: float) -> None:
    """Sleeps for `seconds`, or until `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def unless(
    stop: asyncio.Event, work: Coroutine[Any, Any, T], within_sec: float | None
) -> T | None:
    """Returns the result of `work`; None if `stop` is set or `within_sec` is over first, and then
    cancels the work.
    """
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
    """Cancels tasks and waits until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
