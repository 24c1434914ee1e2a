"""Calls about sinks and their notices whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue.services.janitor import Janitor
from rqueue.store.sinks import Asking, Delivery, forget, serve, settle, take
from tests.house import House

READS = {"sink/list"}
HAND = Asking("one", 60_000, 10, 100)


async def nothing(house: House) -> None: ...


async def served(house: House, _: object = None) -> None:
    await serve(house.queue.shard, "ops", ["breaker.opened"], lately_ms=60_000)


async def noticed(house: House) -> None:
    await served(house)
    for _ in range(3):
        await house.queue.open_breaker("code", 60)


async def taken(house: House, _: object = None) -> list[int]:
    found = await take(house.queue.shard, "ops", HAND)
    assert found is not None
    return [notice.tries for notice in found.notices]


async def in_hand(house: House) -> list[str]:
    await noticed(house)
    found = await take(house.queue.shard, "ops", HAND)
    assert found is not None
    return [notice.id for notice in found.notices]


async def settled(house: House, notices: list[str]) -> None:
    one, two, _ = notices
    rows = [Delivery(one), Delivery(two, 60_000)]
    await settle(house.queue.shard, "ops", "one", rows)


async def deserted(house: House) -> None:
    await noticed(house)
    await house.client.zadd(house.keys.sinks(), {"ops": 1})


async def forgotten(house: House, _: object) -> None:
    await forget(house.queue.shard, silent_ms=60_000)


async def cleared(house: House, _: object) -> None:
    await Janitor(house.queue.shard).tick()


Row = tuple[Callable[[House], Awaitable[Any]], Callable[[House, Any], Awaitable[Any]]]
CASES: dict[str, list[Row]] = {
    "sink/serve": [(nothing, served), (noticed, served)],
    "sink/take": [(noticed, taken)],
    "sink/settle": [(in_hand, settled)],
    "sink/forget": [(deserted, forgotten), (deserted, cleared)],
}
