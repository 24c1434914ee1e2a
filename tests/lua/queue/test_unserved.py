"""unserved: what no live worker can do is told once for each lane, when it has lasted for long."""

from __future__ import annotations

from typing import Any

from rqueue.store.queue import note_unserved
from tests.house import House
from tests.lua.rows import claim, everything, submitted

MINUTE_MS = 60_000


async def noted(house: House, *lanes: int) -> int:
    rows = [(lane, f"lane {lane}") for lane in lanes]
    return await note_unserved(house.queue.shard, rows, after_ms=MINUTE_MS)


async def age(house: House, lane: int) -> None:
    """Lets a lane have been unserved for longer than it may."""
    key = house.keys.unserved()
    kept = (await house.client.hget(key, lane)).decode().split(" ")
    aged = " ".join([str(int(kept[0]) - MINUTE_MS), *kept[1:]])
    await house.client.hset(key, lane, aged)


async def events(house: House) -> list[dict[str, Any]]:
    found = (await everything(house)).get("events", ({}, {}))
    return list(found[0].values())


async def test_where_all_is_served_nothing_is_kept(house: House) -> None:
    assert await noted(house) == 0
    assert await house.dump() == {}


async def test_it_is_not_told_before_its_time(house: House) -> None:
    await submitted(house)
    before = await everything(house)

    assert [await noted(house, 1), await noted(house, 1)] == [0, 0]

    after = await everything(house)
    assert after.pop("unserved")["1"].isdigit()
    assert after == before


async def test_it_is_told_once_while_it_lasts(house: House) -> None:
    first, _ = await submitted(house), await submitted(house)
    await noted(house, 1)
    await age(house, 1)

    assert [await noted(house, 1), await noted(house, 1)] == [1, 0]

    assert await events(house) == [{"event": "task.unserved", "task": first, "detail": "lane 1"}]
    before = await house.dump()
    assert await noted(house, 1) == 0
    assert await house.dump() == before


async def test_one_that_was_served_in_between_counts_anew(house: House) -> None:
    await submitted(house)
    await noted(house, 1)
    await age(house, 1)
    assert await noted(house, 1) == 1

    await noted(house)
    assert "unserved" not in await everything(house)
    assert await noted(house, 1) == 0
    await age(house, 1)

    assert await noted(house, 1) == 1
    assert len(await events(house)) == 2


async def test_a_lane_that_was_emptied_meanwhile_is_not_told(house: House) -> None:
    await submitted(house)
    await noted(house, 1)
    await age(house, 1)
    await claim(house)

    assert await noted(house, 1) == 0
    assert await events(house) == []


async def test_broken_bytes_count_from_now(house: House) -> None:
    await submitted(house)
    await house.client.hset(house.keys.unserved(), "1", "soon")

    assert await noted(house, 1) == 0
    await age(house, 1)
    assert await noted(house, 1) == 1
