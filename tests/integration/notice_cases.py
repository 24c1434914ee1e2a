"""Calls about sinks and notices whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from rqueue.maintenance.janitor import Janitor
from rqueue.notices.store import NoticeOutcome, TakeRequest, forget, serve, settle, take
from tests.harness import Harness

WEEK_MS = 7 * 86_400_000

READS = {"notice/list"}
REQUEST = TakeRequest("one", 60_000, 10, 100)


async def nothing(harness: Harness) -> None: ...


async def served(harness: Harness, _: object = None) -> None:
    await serve(harness.queue._internals.shard, "ops", ["breaker.opened"], lately_ms=60_000)


async def with_notices(harness: Harness) -> None:
    await served(harness)
    for _ in range(3):
        await harness.queue.limits.open_breaker("code", 60)


async def taken(harness: Harness, _: object = None) -> list[int]:
    found = await take(harness.queue._internals.shard, "ops", REQUEST)
    assert found is not None
    return [notice.tries for notice in found.notices]


async def being_delivered(harness: Harness) -> list[str]:
    await with_notices(harness)
    found = await take(harness.queue._internals.shard, "ops", REQUEST)
    assert found is not None
    return [notice.id for notice in found.notices]


async def settled(harness: Harness, notices: list[str]) -> None:
    one, two, _ = notices
    rows = [NoticeOutcome(one), NoticeOutcome(two, 60_000)]
    await settle(harness.queue._internals.shard, "ops", "one", rows)


async def silent_sink(harness: Harness) -> None:
    await with_notices(harness)
    await harness.client.zadd(harness.keys.sinks(), {"ops": 1})


async def forgotten(harness: Harness, _: object) -> None:
    await forget(harness.queue._internals.shard, silent_ms=60_000)


async def swept(harness: Harness, _: object) -> None:
    await Janitor(
        harness.queue._internals.shard,
        forget_sinks=partial(forget, harness.queue._internals.shard, silent_ms=WEEK_MS),
    ).tick()


Row = tuple[Callable[[Harness], Awaitable[Any]], Callable[[Harness, Any], Awaitable[Any]]]
CASES: dict[str, list[Row]] = {
    "notice/serve": [(nothing, served), (with_notices, served)],
    "notice/take": [(with_notices, taken)],
    "notice/settle": [(being_delivered, settled)],
    "notice/forget": [(silent_sink, forgotten), (silent_sink, swept)],
}
