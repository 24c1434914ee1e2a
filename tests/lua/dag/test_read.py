"""read: a DAG at one moment, and its tasks page by page."""

from __future__ import annotations

from typing import Any

from rqueue.dags import store as dag_store
from rqueue.task.dag import DagStatus
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, planted, run


async def read(plant: Planted, start: int = 0, limit: int = 10) -> list[Any]:
    args: dict[str, Any] = {"dag": plant.dag, "from": start, "limit": limit}
    reply = await plant.harness.queue._internals.shard.run("dag/read", args)
    return list(reply)


async def test_its_facts_and_tasks_are_told(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND, title="T", threshold="0.5", budget=5_000_000)
    await run(plant, a="done", b="dead")

    word, _, page = await read(plant, 1, 2)

    assert word == b"OK"
    assert [task.decode() for task in page] == [plant.ids[name].ulid for name in "bc"]
    dag = await dag_store.read(harness.queue._internals.shard, plant.planting.id)
    assert (dag.status, dag.total, dag.open, dag.dead, dag.completed, dag.edges) == (
        DagStatus.FAILED, 4, 2, 1, 1, 4,
    )  # fmt: skip
    assert (dag.spec.title, dag.spec.failure_threshold, dag.spec.budget_usd) == ("T", 0.5, 5.0)


async def test_all_of_its_tasks_come_in_the_order_they_were_written(harness: Harness) -> None:
    plant = await planted(harness, {str(at): [] for at in range(501)})

    found = await dag_store.members(harness.queue._internals.shard, plant.planting.id)

    assert found == [task.ulid for task in plant.ids.values()]


async def test_what_nobody_sees_is_gone(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()

    assert await read(plant) == [b"GONE"]
    assert await read(a_plant(harness, DIAMOND)) == [b"GONE"]


async def test_looking_changes_nothing(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await harness.dump()

    await read(plant)

    assert await harness.dump() == before
