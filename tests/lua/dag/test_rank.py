"""rank: tasks move by their part for the critical path, and only by what has changed of it."""

from __future__ import annotations

import pytest

from tests.house import House
from tests.lua.dag.planted import Planted, planted, run, settled
from tests.lua.rows import BASE
from tests.lua.task.afterwards import ask

PAIR = {"a": [], "b": ["a"]}


async def ranked(plant: Planted, seen: str = "", **ranks: int) -> list[object]:
    rows = [(plant.ids[name].ulid, rank) for name, rank in ranks.items()]
    return await ask(plant.house, "dag/rank", {"dag": plant.dag, "seen": seen}, rows)


async def place(plant: Planted, name: str) -> tuple[str | None, ...]:
    """The rank and the score of a task."""
    key = plant.house.keys.task(plant.ids[name].ulid)
    found = await plant.house.client.hmget(key, "rank", "score")
    return tuple(None if one is None else one.decode() for one in found)


async def test_a_task_moves_in_its_lane(house: House) -> None:
    plant = await planted(house, PAIR)

    assert await ranked(plant, a=7, b=3) == ["OK"]

    assert await place(plant, "a") == ("7", str(BASE - 7))
    assert await place(plant, "b") == ("3", str(BASE - 3))
    assert await house.client.zscore(house.keys.lane(1), plant.ids["a"].ulid) == BASE - 7
    assert await house.client.zcard(house.keys.lane(1)) == 1


async def test_only_the_difference_counts(house: House) -> None:
    plant = await planted(house, PAIR)
    await ranked(plant, a=7)

    await ranked(plant, a=2)

    assert await place(plant, "a") == ("2", str(BASE - 2))


async def test_a_priority_that_was_set_meanwhile_still_counts(house: House) -> None:
    plant = await planted(house, {"a": []})
    await ranked(plant, a=7)
    await house.queue.set_priority(plant.ids["a"], 10)

    await ranked(plant, a=2)

    assert (await place(plant, "a"))[1] == str(10_000_000 - 2)


async def test_sent_again_it_changes_nothing(house: House) -> None:
    plant = await planted(house, PAIR)
    await ranked(plant, a=7)
    before = await house.dump()

    assert await ranked(plant, a=7) == ["OK"]
    assert await house.dump() == before


async def test_what_has_ended_or_is_held_back_enters_no_lane(house: House) -> None:
    plant = await planted(house, {"a": [], "b": []})
    await run(plant, a="done")
    await plant.hold()

    await ranked(plant, a=7, b=7)

    assert (await place(plant, "a"))[1] == str(BASE)
    assert (await place(plant, "b"))[1] == str(BASE - 7)
    assert "lane:1" not in await plant.after()


@pytest.mark.parametrize(("seen", "left"), [("1", False), ("2", True), ("", True)])
async def test_a_change_since_the_graph_was_read_is_for_the_next_call(
    house: House, seen: str, left: bool
) -> None:
    plant = await planted(house, PAIR)
    await house.client.hset(house.keys.unfinished(), f"rank {plant.dag}", 1)

    await ranked(plant, seen, a=7)

    assert ("unfinished" in await plant.after()) is left


async def test_the_services_rank_a_graph_that_has_grown(house: House) -> None:
    parent = (await house.queue.enqueue("code")).id
    alone = (await house.queue.enqueue("code")).id
    await house.queue.enqueue("code", {}, depends_on=[parent])

    await settled(house)

    first = await house.client.zrange(house.keys.lane(1), 0, -1)
    assert [task.decode() for task in first] == [parent.ulid, alone.ulid]
    assert int(await house.client.hget(house.keys.task(parent.ulid), "rank")) > 0
    assert not await house.client.exists(house.keys.unfinished())
