"""edges: what the tasks of a DAG that have not ended wait for, in pages."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.dags import store as dag_store
from rqueue.errors import DagNotFound
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, fan, planted, run
from tests.lua.task.keys_after import ask


async def edges(plant: Planted, start: int = 0, limit: int = 100) -> list[Any]:
    """The reply, tasks by their names."""
    args: dict[str, Any] = {"dag": plant.dag, "from": start, "limit": limit}
    names = {task.ulid: name for name, task in plant.ids.items()}
    reply = await ask(plant.harness, "dag/edges", args)
    return [
        " ".join(sorted(names.get(part, part) for part in str(word).split()))
        if isinstance(word, str)
        else word
        for word in reply
    ]


async def test_each_has_its_rank_and_its_parents(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await harness.dump()

    assert await edges(plant) == ["OK", "", "a", "0", "", "b", "0", "a", "c", "0", "a",
        "d", "0", "b c"]  # fmt: skip
    assert await harness.dump() == before


async def test_what_has_ended_is_passed_over(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    await run(plant, a="done", b="dead")

    assert await edges(plant) == ["OK", "", "c", "0", "", "d", "0", "b c"]


async def test_a_page_ends_when_it_has_told_enough(harness: Harness) -> None:
    plant = await planted(harness, fan(3, to_one=True))

    pages = [(await edges(plant, start, 3))[1:3] for start in (0, 3)]

    assert pages == [[3, "0"], ["", "end"]]
    found = await dag_store.edges(harness.queue._internals.shard, plant.planting.id)
    assert [len(one.dependencies) for one in found] == [0, 0, 0, 3]


async def test_all_pages_are_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = await planted(harness, DIAMOND)
    monkeypatch.setattr(dag_store, "CHUNK", 1)

    found = await dag_store.edges(harness.queue._internals.shard, plant.planting.id)

    assert [one.task for one in found] == [task.ulid for task in plant.ids.values()]


async def test_what_nobody_sees_is_gone(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()

    assert await edges(plant) == ["GONE"]
    with pytest.raises(DagNotFound):
        await dag_store.edges(harness.queue._internals.shard, plant.planting.id)
