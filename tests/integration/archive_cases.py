"""Calls about the outbox and the archive whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue.core.outbox import Entry, OutboxSize, archived, collect, join, leave, measure, recount
from tests.harness import Harness

READS = {"archive/read", "dag/facts"}


async def ended(harness: Harness) -> None:
    """Three entries in the outbox."""
    for n in range(3):
        await harness.client.xadd(harness.keys.outbox(), {f"task-{n}": "1 COMPLETED"})
    await harness.client.hset(harness.keys.stats(), "outbox", 3)


async def collected(harness: Harness, _: object = None) -> list[Entry]:
    return await collect(harness.queue._internals.shard, "one", idle_ms=60_000, limit=2)


async def two_collected(harness: Harness, _: object = None) -> int:
    return len(await collected(harness))


async def pending(harness: Harness) -> list[Entry]:
    await ended(harness)
    return await collected(harness)


async def acknowledged(harness: Harness, entries: list[Entry]) -> None:
    """The repeated call does not count entries that the lost one acknowledged; only its effect must
    be the same.
    """
    await archived(harness.queue._internals.shard, entries)


async def joins(harness: Harness, _: object = None) -> None:
    await join(harness.queue._internals.shard)


async def leaves(harness: Harness, _: object) -> None:
    await leave(harness.queue._internals.shard)


async def nothing(_: Harness) -> None:
    """An empty queue."""


async def wrong_counter(harness: Harness) -> OutboxSize:
    """An outbox with a wrong counter, and its content."""
    await ended(harness)
    await harness.client.hset(harness.keys.stats(), "outbox", 5)
    return await measure(harness.queue._internals.shard)


async def recounts(harness: Harness, seen: OutboxSize) -> bool:
    return await recount(harness.queue._internals.shard, seen, 5)


CASES: dict[
    str, list[tuple[Callable[[Harness], Awaitable[Any]], Callable[..., Awaitable[Any]]]]
] = {
    "archive/collect": [(ended, two_collected)],
    "archive/acknowledge": [(pending, acknowledged)],
    "archive/join": [(nothing, joins)],
    "archive/leave": [(joins, leaves)],
    "archive/recount": [(wrong_counter, recounts)],
}
