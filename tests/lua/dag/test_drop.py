"""drop: of a DAG that was never committed nothing is left, wherever its writing stopped."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.errors import InvalidGraph
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, fan, planted, running, settled
from tests.lua.rows import submitted

MORE = {"ext": "own", "tags": ["t"], "deadline": 99}


async def keys(harness: Harness) -> set[str]:
    return set(await harness.dump())


async def dropped(plant: Planted, *, limit: int = 250) -> None:
    """Calls it until it says that there is no more."""
    while (await plant.drop(limit=limit))[1]:
        pass


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
async def test_a_crash_after_any_part_leaves_nothing(harness: Harness, parts: int) -> None:
    outside = await submitted(harness)
    plant = a_plant(
        harness, fan(450, to_one=True), more={"0": MORE}, outside={"1": [outside]}, follow="{}"
    )
    assert len(plant.parts()) >= 4
    before = await keys(harness)
    for rows in plant.parts()[:parts]:
        await plant.write(rows)

    await dropped(plant)

    assert await keys(harness) == before
    assert (await plant.after())["stats"] == {"submitted": 1}


async def test_a_parent_outside_forgets_who_was_to_wait_for_it(harness: Harness) -> None:
    parent = await submitted(harness)
    more = {"b": {"trigger": "all_done"}}
    plant = a_plant(harness, {"a": [], "b": []}, more=more, outside={"a": [parent], "b": [parent]})
    await plant.written()
    assert {f"dependents:{parent}", f"heirs:{parent}"} <= set(await plant.after())

    await dropped(plant)

    assert not {f"dependents:{parent}", f"heirs:{parent}"} & set(await plant.after())


@pytest.mark.parametrize("state", ["dead", "cancelled", "gone"])
async def test_a_producers_id_is_left_as_it_was_found(harness: Harness, state: str) -> None:
    task = await submitted(harness, more={"ext": "own"})
    (lease,) = await running(harness)
    await (lease.fail(permanent=True) if state == "dead" else harness.queue.cancel(lease.id))
    name = harness.keys.external("own")
    before = await harness.client.pttl(name)
    plant = await a_plant(harness, {"a": []}, more={"a": {"ext": "own"}}).written()
    if state == "gone":
        await harness.client.delete(harness.keys.task(task))

    await dropped(plant)

    found = await harness.client.get(name)
    assert found == (None if state == "gone" else task.encode())
    if state != "gone":
        left = await harness.client.pttl(name)
        assert (left == -1) if state == "dead" else 0 < left <= before


async def test_a_refused_dag_leaves_a_producers_id_to_the_dead_that_bears_it(
    harness: Harness,
) -> None:
    dead = await harness.queue.enqueue("code", external_id="mine")
    (lease,) = await running(harness)
    await lease.fail(permanent=True)
    await harness.queue.enqueue("code", external_id="other")
    rows: list[dict[str, str]] = [{"type": "code"} for _ in range(400)]
    rows[0]["external_id"], rows[-1]["external_id"] = "mine", "other"
    before = await keys(harness)

    with pytest.raises(InvalidGraph):
        await harness.queue.dags.submit({"tasks": rows})

    assert await keys(harness) == before
    assert (await harness.queue.get("mine")).id == dead.id


async def test_a_committed_one_keeps_nothing_of_who_bore_its_id_before(harness: Harness) -> None:
    await submitted(harness, more={"ext": "own"})
    (lease,) = await running(harness)
    await lease.fail(permanent=True)

    plant = await planted(harness, {"a": []}, more={"a": {"ext": "own"}})

    found = await plant.after()
    assert "namesake" not in found["task:a"]
    assert found["ext:own"] == "a"


async def test_it_goes_in_bounded_steps(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5)).written()

    said = [await plant.drop(limit=4) for _ in range(4)]

    # One and its edge are two.
    assert said == [["OK", 1], ["OK", 1], ["OK", 0], ["OK", 0]]

    assert set(await plant.after()) == {"lanes", "stats"}


async def test_one_that_is_sent_again_while_it_is_dropped_is_whole(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5)).written()
    await plant.drop(limit=2)
    assert await plant.write(plant.parts()[0]) == ["STATE", "dropping"]

    await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert await plant.counted() == {"READY": 1, "PENDING": 5}
    assert [await plant.field(name) for name in ("total", "open", "edges")] == ["6", "6", "5"]
    assert len((await plant.after())["dependents:a"]) == 5


async def test_a_wide_one_that_is_sent_again_while_it_is_dropped_waits_for_all(
    harness: Harness,
) -> None:
    outside = [await submitted(harness) for _ in range(3)]
    plant = await a_plant(harness, {"a": [], "b": ["a"]}, outside={"b": outside}).written()
    assert [await plant.drop(limit=2) for _ in range(2)] == [["OK", 1], ["OK", 1]]

    await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert sorted((await plant.after())["waits:b"]) == sorted(["a", *outside])
    assert await plant.field("edges") == "4"


async def test_nothing_is_left_of_a_wide_one_that_is_refused(harness: Harness) -> None:
    await harness.queue.enqueue("code", external_id="mine")
    before = await keys(harness)
    names = [str(at) for at in range(2500)]
    rows: list[dict[str, Any]] = [{"type": "code", "name": name} for name in names]
    rows[0]["external_id"] = "mine"

    with pytest.raises(InvalidGraph, match="its external_id is that"):
        await harness.queue.dags.submit({"tasks": [*rows, {"type": "code", "after": names}]})

    assert await keys(harness) == before


async def test_a_committed_one_is_not_dropped(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await harness.dump()

    assert await plant.drop() == ["STATE", "pending"]
    assert await harness.dump() == before


async def test_one_that_was_written_to_a_moment_ago_is_left_to_its_producer(
    harness: Harness,
) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    before = await harness.dump()

    assert await plant.drop(idle_ms=60_000) == ["OK", 0]
    assert await harness.dump() == before


async def test_the_services_drop_what_its_producer_left(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    await settled(harness)
    assert (await harness.queue.counts())[State.PENDING] == 0
    assert await plant.counted() == {"CREATED": 1, "PENDING": 3}

    await harness.client.zadd(harness.keys.writing(), {plant.dag: 1})
    await settled(harness)

    assert set(await plant.after()) == {"lanes", "stats"}


async def test_one_that_is_not_there_is_no_fault(harness: Harness) -> None:
    plant = a_plant(harness, DIAMOND)

    assert await plant.drop() == ["OK", 0]
    assert await harness.dump() == {}
    assert await dag_store.steps(harness.queue._internals.shard) == []
