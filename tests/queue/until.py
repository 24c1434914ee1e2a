"""Waits for a state of the server by polling, never for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.harness import Harness

# The first polls do not sleep: changes by this event loop take a few of its steps. Later polls
# leave the processor to other processes.
EAGER = 20


async def until(true: Callable[[], Awaitable[bool]], *, every_sec: float = 0.01) -> None:
    """Returns when a condition is true. The timeout of the test limits the time."""
    polls = 0
    while not await true():
        await asyncio.sleep(every_sec if polls > EAGER else 0)
        polls += 1


async def claims_waiting(harness: Harness, count: int) -> None:
    """Returns when this many claims wait at the server."""

    async def reached() -> bool:
        keys = [key async for key in harness.client.scan_iter(match="*}:waiting:*")]
        return bool(sum([await harness.client.zcard(key) for key in keys]) == count)

    await until(reached)


async def watched(harness: Harness, ulid: str) -> None:
    """Returns when a caller's wait for the end of the task is registered."""

    async def registered() -> bool:
        return bool(await harness.client.exists(harness.keys.watchers(ulid)))

    await until(registered)


async def blocked(harness: Harness, count: int = 1) -> None:
    """Returns when this many connections block at the server."""

    async def reached() -> bool:
        return bool((await harness.client.info("clients"))["blocked_clients"] == count)

    await until(reached)
