"""rank: tasks move by their part for the critical path, and only by what has changed of it."""

from __future__ import annotations

import pytest

from tests.harness import Harness
from tests.lua.dag.planted import Planted, planted, run, settled
from tests.lua.rows import BASE
from tests.lua.task.keys_after import ask

PAIR = {"a": [], "b": ["a"]}


async def ranked(plant: Planted, seen: str = "", **ranks: int) -> list[object]:
    rows = [(plant.ids[name].ulid, rank) for name, rank in ranks.items()]
    return await ask(plant.harness, "dag/rank", {"dag": plant.dag, "seen": seen}, rows)


async def place(plant: Planted, name: str) -> tuple[str | None, ...]:
    """The rank and the score of a task."""
    key = plant.harness.keys.task(plant.ids[name].ulid)
    found = await plant.harness.client.hmget(key, "rank", "score")
    return tuple(None if one is None else one.decode() for one in found)


async def test_a_task_moves_in_its_lane(harness: Harness) -> None:
    plant = await planted(harness, PAIR)

    assert await ranked(plant, a=7, b=3) == ["OK"]

    assert await place(plant, "a") == ("7", str(BASE - 7))
    assert await place(plant, "b") == ("3", str(BASE - 3))
    assert await harness.client.zscore(harness.keys.lane(1), plant.ids["a"].ulid) == BASE - 7
    assert await harness.client.zcard(harness.keys.lane(1)) == 1


async def test_only_the_difference_counts(harness: Harness) -> None:
    plant = await planted(harness, PAIR)
    await ranked(plant, a=7)

    await ranked(plant, a=2)

    assert await place(plant, "a") == ("2", str(BASE - 2))


async def test_a_priority_that_was_set_meanwhile_still_counts(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    await ranked(plant, a=7)
    await harness.queue.set_priority(plant.ids["a"], 10)

    await ranked(plant, a=2)

    assert (await place(plant, "a"))[1] == str(10_000_000 - 2)


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    plant = await planted(harness, PAIR)
    await ranked(plant, a=7)
    before = await harness.dump()

    assert await ranked(plant, a=7) == ["OK"]
    assert await harness.dump() == before


async def test_what_has_ended_or_is_held_back_enters_no_lane(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    await run(plant, a="done")
    await plant.pause()

    await ranked(plant, a=7, b=7)

    assert (await place(plant, "a"))[1] == str(BASE)
    assert (await place(plant, "b"))[1] == str(BASE - 7)
    assert "lane:1" not in await plant.after()


@pytest.mark.parametrize(("seen", "left"), [("1", False), ("2", True), ("", True)])
async def test_a_change_since_the_graph_was_read_is_for_the_next_call(
    harness: Harness, seen: str, left: bool
) -> None:
    plant = await planted(harness, PAIR)
    await harness.client.hset(harness.keys.unfinished(), f"rank {plant.dag}", 1)

    await ranked(plant, seen, a=7)

    assert ("unfinished" in await plant.after()) is left


async def test_the_services_rank_a_graph_that_has_grown(harness: Harness) -> None:
    parent = (await harness.queue.enqueue("code")).id
    alone = (await harness.queue.enqueue("code")).id
    await harness.queue.enqueue("code", {}, depends_on=[parent])

    await settled(harness)

    first = await harness.client.zrange(harness.keys.lane(1), 0, -1)
    assert [task.decode() for task in first] == [parent.ulid, alone.ulid]
    assert int(await harness.client.hget(harness.keys.task(parent.ulid), "rank")) > 0
    assert not await harness.client.exists(harness.keys.unfinished())
