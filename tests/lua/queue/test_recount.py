"""recount: the counter of the outbox is set to what is in it, if both stood still."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.outbox import Entry, archived, measure
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import ask


async def drifted(house: House, by: int = 3) -> dict[str, Any]:
    """Two tasks in two entries, a counter that is wrong, and what a walk has seen."""
    for _ in range(2):
        await (await house.running()).complete()
    counter = await house.client.hincrby(house.keys.stats(), "outbox", by)
    seen = await measure(house.queue.shard)
    return {"entries": seen.entries, "last": seen.last, "counter": counter, "counted": seen.tasks}


@pytest.mark.parametrize("drift", [3, -3])
async def test_the_counter_is_what_is_there(archived_house: House, drift: int) -> None:
    house = archived_house
    args = await drifted(house, drift)
    before = await everything(house)

    assert await ask(house, "queue/recount", args) == ["OK"]

    before["stats"]["outbox"] = "2"
    assert await everything(house) == before
    assert await ask(house, "queue/recount", args) == ["OK"]
    assert await everything(house) == before


async def test_an_empty_outbox_is_counted_too(house: House) -> None:
    await house.client.hset(house.keys.stats(), "outbox", 5)
    args: dict[str, Any] = {"entries": 0, "last": "", "counter": 5, "counted": 0}

    assert await ask(house, "queue/recount", args) == ["OK"]

    assert (await everything(house))["stats"] == {"outbox": "0"}


async def test_what_ended_meanwhile_leaves_it_alone(archived_house: House) -> None:
    house = archived_house
    args = await drifted(house)
    await (await house.running()).complete()
    before = await everything(house)

    assert await ask(house, "queue/recount", args) == ["STATE", "6"]

    assert await everything(house) == before


async def test_what_was_archived_meanwhile_leaves_it_alone(archived_house: House) -> None:
    house = archived_house
    args = await drifted(house)
    ((first, _), _) = await house.client.xrange(house.keys.outbox())
    await archived(house.queue.shard, [Entry(first.decode(), [])])

    assert await ask(house, "queue/recount", args) == ["STATE", "4"]


async def test_a_counter_that_another_has_mended_is_left_alone(archived_house: House) -> None:
    args = await drifted(archived_house)
    await archived_house.client.hset(archived_house.keys.stats(), "outbox", 9)

    assert await ask(archived_house, "queue/recount", args) == ["STATE", "9"]
