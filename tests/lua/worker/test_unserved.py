"""unserved: tasks that no live worker can run are reported once for each lane, after a while."""

from __future__ import annotations

from typing import Any

from rqueue.core.counts import note_unserved
from tests.harness import Harness
from tests.lua.rows import claim, everything, submitted

MINUTE_MS = 60_000


async def noted(harness: Harness, *lanes: int) -> int:
    rows = [(lane, f"lane {lane}") for lane in lanes]
    return await note_unserved(harness.queue._internals.shard, rows, after_ms=MINUTE_MS)


async def age(harness: Harness, lane: int) -> None:
    """Moves the record of a lane beyond the limit."""
    key = harness.keys.unserved()
    kept = (await harness.client.hget(key, lane)).decode().split(" ")
    aged = " ".join([str(int(kept[0]) - MINUTE_MS), *kept[1:]])
    await harness.client.hset(key, lane, aged)


async def events(harness: Harness) -> list[dict[str, Any]]:
    found = (await everything(harness)).get("events", ({}, {}))
    return list(found[0].values())


async def test_where_all_lanes_are_served_nothing_is_stored(harness: Harness) -> None:
    assert await noted(harness) == 0
    assert await harness.dump() == {}


async def test_a_lane_is_not_reported_before_its_time(harness: Harness) -> None:
    await submitted(harness)
    before = await everything(harness)

    assert [await noted(harness, 1), await noted(harness, 1)] == [0, 0]

    after = await everything(harness)
    assert after.pop("unserved")["1"].isdigit()
    assert after == before


async def test_a_lane_is_reported_once_while_it_lasts(harness: Harness) -> None:
    first, _ = await submitted(harness), await submitted(harness)
    await noted(harness, 1)
    await age(harness, 1)

    assert [await noted(harness, 1), await noted(harness, 1)] == [1, 0]

    assert await events(harness) == [{"event": "task.unserved", "task": first, "detail": "lane 1"}]
    before = await harness.dump()
    assert await noted(harness, 1) == 0
    assert await harness.dump() == before


async def test_a_lane_that_was_served_in_between_counts_anew(harness: Harness) -> None:
    await submitted(harness)
    await noted(harness, 1)
    await age(harness, 1)
    assert await noted(harness, 1) == 1

    await noted(harness)
    assert "unserved" not in await everything(harness)
    assert await noted(harness, 1) == 0
    await age(harness, 1)

    assert await noted(harness, 1) == 1
    assert len(await events(harness)) == 2


async def test_a_lane_that_was_emptied_meanwhile_is_not_reported(harness: Harness) -> None:
    await submitted(harness)
    await noted(harness, 1)
    await age(harness, 1)
    await claim(harness)

    assert await noted(harness, 1) == 0
    assert await events(harness) == []


async def test_an_unreadable_record_counts_from_now(harness: Harness) -> None:
    await submitted(harness)
    await harness.client.hset(harness.keys.unserved(), "1", "soon")

    assert await noted(harness, 1) == 0
    await age(harness, 1)
    assert await noted(harness, 1) == 1
