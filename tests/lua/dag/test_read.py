"""read: a DAG at one moment, and its tasks page by page."""

from __future__ import annotations

from typing import Any

from rqueue.model.dag import DagStatus
from rqueue.store import dags
from tests.house import House
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, planted, run


async def read(plant: Planted, start: int = 0, limit: int = 10) -> list[Any]:
    args: dict[str, Any] = {"dag": plant.dag, "from": start, "limit": limit}
    reply = await plant.house.queue.shard.run("dag/read", args)
    return list(reply)


async def test_its_facts_and_tasks_are_told(house: House) -> None:
    plant = await planted(house, DIAMOND, title="T", threshold="0.5", budget=5_000_000)
    await run(plant, a="done", b="dead")

    word, _, page = await read(plant, 1, 2)

    assert word == b"OK"
    assert [task.decode() for task in page] == [plant.ids[name].ulid for name in "bc"]
    dag = await dags.read(house.queue.shard, plant.planting.id)
    assert (dag.status, dag.total, dag.open, dag.dead, dag.completed, dag.edges) == (
        DagStatus.FAILED, 4, 2, 1, 1, 4,
    )  # fmt: skip
    assert (dag.spec.title, dag.spec.failure_threshold, dag.spec.budget_usd) == ("T", 0.5, 5.0)


async def test_all_of_its_tasks_come_in_the_order_they_were_written(house: House) -> None:
    plant = await planted(house, {str(at): [] for at in range(501)})

    found = await dags.members(house.queue.shard, plant.planting.id)

    assert found == [task.ulid for task in plant.ids.values()]


async def test_what_nobody_sees_is_gone(house: House) -> None:
    plant = await a_plant(house, DIAMOND).written()

    assert await read(plant) == [b"GONE"]
    assert await read(a_plant(house, DIAMOND)) == [b"GONE"]


async def test_looking_changes_nothing(house: House) -> None:
    plant = await planted(house, DIAMOND)
    before = await house.dump()

    await read(plant)

    assert await house.dump() == before
