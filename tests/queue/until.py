"""Waiting for what the server knows: asked again and again, never for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.harness import Harness

# What our own loop brings about comes within a few turns of it; a process needs the processor more
# than our asking does.
EAGER = 20


async def until(true: Callable[[], Awaitable[bool]], *, every_sec: float = 0.01) -> None:
    """Returns when it is true; the test's own timeout is the end of patience."""
    asked = 0
    while not await true():
        await asyncio.sleep(every_sec if asked > EAGER else 0)
        asked += 1


async def parked(harness: Harness, count: int) -> None:
    """Returns when so many claims wait at the server."""

    async def so_many() -> bool:
        keys = [key async for key in harness.client.scan_iter(match="*}:waiting:*")]
        return bool(sum([await harness.client.zcard(key) for key in keys]) == count)

    await until(so_many)


async def watched(harness: Harness, ulid: str) -> None:
    """Returns when the server knows that someone waits for the task's end."""

    async def known() -> bool:
        return bool(await harness.client.exists(harness.keys.watchers(ulid)))

    await until(known)


async def blocked(harness: Harness, count: int = 1) -> None:
    """Returns when so many connections block at the server."""

    async def so_many() -> bool:
        return bool((await harness.client.info("clients"))["blocked_clients"] == count)

    await until(so_many)
