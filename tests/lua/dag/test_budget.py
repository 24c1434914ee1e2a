"""budget: what all tasks of a DAG together may cost."""

from __future__ import annotations

from rqueue.dags import store as dag_store
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, planted
from tests.lua.task.keys_after import ask


async def budget(plant: Planted, micro_usd: int | str) -> list[object]:
    args = {"dag": plant.dag, "micro_usd": micro_usd, "limit": 9, "tries": 9}
    return await ask(plant.harness, "dag/budget", args)


async def test_it_is_kept_and_taken_away(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await plant.after()

    assert await budget(plant, 1_500_000) == ["OK", 0]
    after = await plant.after()
    assert after == before | {"dag:D": before["dag:D"] | {"budget": "1500000"}}
    assert (
        await dag_store.read(harness.queue._internals.shard, plant.planting.id)
    ).spec.budget_usd == 1.5

    assert await budget(plant, "") == ["OK", 0]
    assert await plant.after() == before


async def test_what_nobody_sees_is_gone(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    before = await harness.dump()

    assert await budget(plant, 1) == ["GONE"]
    assert await budget(a_plant(harness, DIAMOND), 1) == ["GONE"]
    assert await harness.dump() == before
