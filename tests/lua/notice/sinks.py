"""Helpers of tests of sinks: emit events, take notices, let time pass."""

from __future__ import annotations

from typing import Any

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import run_move

TAKE: dict[str, Argument] = {
    "sink": "ops", "taker": "t1", "lease_ms": 60_000, "limit": 10, "window": 100, "page": 100,
}  # fmt: skip
LATELY_MS = 300_000
OPENED = ["event", "breaker.opened", "breaker", "code", "detail", "60000", "id"]


async def served(harness: Harness, *sinks: str, wants: str = "breaker.opened") -> None:
    """Sinks that a notifier serves."""
    for sink in sinks:
        await run_move(
            harness, "notice/serve", {"sink": sink, "wants": wants, "lately_ms": LATELY_MS}
        )


async def age_wanted(harness: Harness, *events: str, sink: str = "ops") -> None:
    """Makes the time old at which a notifier wanted these events."""
    past = int((await harness.client.time())[0]) * 1000 - LATELY_MS - 1000
    await harness.client.zadd(harness.keys.wanted(sink), dict.fromkeys(events, past), xx=True)


async def emit_events(harness: Harness, number: int = 1) -> None:
    """Opens a breaker, so many times."""
    for _ in range(number):
        await harness.queue.limits.open_breaker("code", 60)


async def notices(harness: Harness) -> list[str]:
    """The notices that are kept."""
    return [entry.decode() for entry, _ in await harness.client.xrange(harness.keys.notices())]


async def taken(harness: Harness, **changes: Any) -> list[str]:
    """The notices that a notifier gets."""
    reply = await run_move(harness, "notice/take", TAKE | changes)
    assert reply[0] == "OK"
    return [row[0] for row in reply[2:]]


async def settled(
    harness: Harness, *found: str, delay: int | str = "", sink: str = "ops", taker: str = "t1"
) -> int:
    """How many of these a call has settled."""
    args: dict[str, Argument] = {"sink": sink, "taker": taker}
    word, number = await run_move(harness, "notice/settle", args, [(one, delay) for one in found])
    assert word == "OK"
    return int(number)


async def make_due(harness: Harness, *found: str, sink: str = "ops") -> None:
    """Makes these due."""
    await harness.client.zadd(harness.keys.undelivered(sink), dict.fromkeys(found, 1))


async def sink_keys(harness: Harness) -> dict[str, Any]:
    """The keys of sinks with their content."""
    root = harness.keys.root
    names = ("notices", "noticed", "sink", "undelivered", "wanted")
    found = {key.removeprefix(root): value for key, value in (await harness.dump()).items()}
    return {key: value for key, value in found.items() if key.startswith(names)}
