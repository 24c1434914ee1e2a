"""Calls about workers and their supervision whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue.core.counts import note_unserved
from rqueue.core.workers import Registration, drain, leave, register
from tests.harness import Harness

READS = {"task/explain", "worker/list"}


async def nothing(harness: Harness) -> None: ...


async def registered(harness: Harness, _: object = None) -> bool:
    return await register(
        harness.queue._internals.shard, "w1", "w1/a", Registration(types=("code",))
    )


async def drained(harness: Harness, _: object = None) -> int:
    return await drain(harness.queue._internals.shard, "w1")


async def blamed(harness: Harness, _: object = None) -> int:
    return await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks")


async def to_drain(harness: Harness) -> None:
    await registered(harness)
    await drained(harness)


async def left(harness: Harness, _: object) -> None:
    await leave(harness.queue._internals.shard, "w1", "w1/a")


async def unserved(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await note_unserved(harness.queue._internals.shard, [(1, "type code")], after_ms=60_000)


async def reported(harness: Harness, _: object) -> None:
    """The reply counts what this call reported; only its effect must be the same."""
    await note_unserved(harness.queue._internals.shard, [(1, "type code")], after_ms=0)


Row = tuple[Callable[[Harness], Awaitable[Any]], Callable[[Harness, Any], Awaitable[Any]]]
CASES: dict[str, list[Row]] = {
    "worker/register": [(nothing, registered), (to_drain, registered)],
    "worker/drain": [(registered, drained), (to_drain, drained), (registered, blamed)],
    "worker/leave": [(registered, left), (to_drain, left)],
    "worker/unserved": [(unserved, reported)],
}
