"""Calls of who works and of who looks after them, whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue.model.worker import Registration
from rqueue.store.fleet import drain, leave, register
from rqueue.store.queue import note_unserved
from tests.house import House

READS = {"task/explain", "worker/list"}


async def nothing(house: House) -> None: ...


async def enrolled(house: House, _: object = None) -> bool:
    return await register(house.queue.shard, "w1", "w1/a", Registration(types=("code",)))


async def drained(house: House, _: object = None) -> int:
    return await drain(house.queue.shard, "w1")


async def blamed(house: House, _: object = None) -> int:
    return await drain(house.queue.shard, "w1", why="failed 9 tasks")


async def to_drain(house: House) -> None:
    await enrolled(house)
    await drained(house)


async def left(house: House, _: object) -> None:
    await leave(house.queue.shard, "w1", "w1/a")


async def missed(house: House) -> None:
    await house.queue.enqueue("code")
    await note_unserved(house.queue.shard, [(1, "type code")], after_ms=60_000)


async def told(house: House, _: object) -> None:
    """What it says it told is of this call; only its effect must be the same."""
    await note_unserved(house.queue.shard, [(1, "type code")], after_ms=0)


Row = tuple[Callable[[House], Awaitable[Any]], Callable[[House, Any], Awaitable[Any]]]
CASES: dict[str, list[Row]] = {
    "worker/register": [(nothing, enrolled), (to_drain, enrolled)],
    "worker/drain": [(enrolled, drained), (to_drain, drained), (enrolled, blamed)],
    "worker/leave": [(enrolled, left), (to_drain, left)],
    "queue/unserved": [(missed, told)],
}
