"""Calls about the outbox and the archive whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue.store.outbox import (
    Entry,
    Seen,
    archived,
    collect,
    join,
    leave,
    measure,
    recount,
)
from tests.house import House

READS = {"queue/ended", "dag/facts"}


async def ended(house: House) -> None:
    """Three entries of what an archive is to be told."""
    for n in range(3):
        await house.client.xadd(house.keys.outbox(), {f"task-{n}": "1 COMPLETED"})
    await house.client.hset(house.keys.stats(), "outbox", 3)


async def collected(house: House, _: object = None) -> list[Entry]:
    return await collect(house.queue.shard, "one", idle_ms=60_000, limit=2)


async def two_collected(house: House, _: object = None) -> int:
    return len(await collected(house))


async def in_hand(house: House) -> list[Entry]:
    await ended(house)
    return await collected(house)


async def let_go(house: House, entries: list[Entry]) -> None:
    """What was let go by the lost call is not counted again; only its effect must be the same."""
    await archived(house.queue.shard, entries)


async def joins(house: House, _: object = None) -> None:
    await join(house.queue.shard)


async def leaves(house: House, _: object) -> None:
    await leave(house.queue.shard)


async def nothing(_: House) -> None:
    """An empty queue."""


async def drifted(house: House) -> Seen:
    """An outbox whose counter is wrong, and what is in it."""
    await ended(house)
    await house.client.hset(house.keys.stats(), "outbox", 5)
    return await measure(house.queue.shard)


async def recounts(house: House, seen: Seen) -> bool:
    return await recount(house.queue.shard, seen, 5)


CASES: dict[str, list[tuple[Callable[[House], Awaitable[Any]], Callable[..., Awaitable[Any]]]]] = {
    "queue/collect": [(ended, two_collected)],
    "queue/archived": [(in_hand, let_go)],
    "queue/join": [(nothing, joins)],
    "queue/leave": [(joins, leaves)],
    "queue/recount": [(drifted, recounts)],
}
