"""follow: the DAG that comes after one that has completed, until it is committed."""

from __future__ import annotations

import pytest

from rqueue.dags import submit as dag_submit
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.planted import Planted, a_plant, planted, run
from tests.lua.task.keys_after import ask, expiring

FOLLOWER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def follow(plant: Planted, done: int = 0, refused: str = "") -> list[object]:
    args: dict[str, Argument] = {"dag": plant.dag, "done": done, "refused": refused, "events": 100}
    return await ask(plant.harness, "dag/follow", args)


async def followed(harness: Harness, on_failure: str = "hold") -> Planted:
    """A DAG of two tasks that another follows."""
    plant = a_plant(harness, {"a": [], "b": []}, follow='{"x":1}', on_failure=on_failure)
    facts = [*plant.planting.facts, "follow", FOLLOWER]
    plant = Planted(harness, plant.planting._replace(facts=facts), plant.ids)
    await dag_submit.submit(harness.queue._internals.shard, plant.planting)
    return plant


async def test_completion_names_the_step_and_keeps_the_text(harness: Harness) -> None:
    plant = await followed(harness)
    assert "follow" not in await plant.steps()

    await run(plant, a="done", b="done")

    assert await plant.steps() == {"forget": "0", "follow": "0"}
    assert await follow(plant) == ["OK", '{"x":1}']


async def test_done_it_is_named_no_more(harness: Harness) -> None:
    plant = await followed(harness)
    await run(plant, a="done", b="done")

    assert await follow(plant, 1) == ["OK", ""]
    assert await follow(plant, 1) == ["OK", ""]

    assert await plant.steps() == {"forget": "0"}


async def test_a_refusal_is_kept_and_told_once(harness: Harness) -> None:
    plant = await followed(harness)
    await run(plant, a="done", b="done")
    before = await plant.after()

    assert await follow(plant, 1, "no room") == ["OK", ""]
    once = await plant.after()
    assert await follow(plant, 1, "no room") == ["OK", ""]

    assert await plant.after() == once
    assert await plant.steps() == {"forget": "0"}
    assert await plant.field("refused") == "no room"
    told = {"event": "dag.refused", "dag": FOLLOWER, "detail": "no room"}
    assert once["events"] == [*before["events"], told]
    changed = {name for name in before if once.get(name) != before[name]}
    assert changed == {"dag:D", "events", "unfinished"}


async def test_what_is_committed_is_not_refused_by_another(harness: Harness) -> None:
    plant = await followed(harness)
    await run(plant, a="done", b="done")
    await follow(plant, 1)
    before = await harness.dump()

    await follow(plant, 1, "too late")

    assert await harness.dump() == before


async def test_nothing_expires_before_the_one_that_follows_is_there(harness: Harness) -> None:
    plant = await followed(harness)
    await run(plant, a="done", b="done")

    assert await plant.forget() == ["OK", 0]
    assert await plant.steps() == {"forget": "0", "follow": "0"}
    assert await expiring(harness, **plant.names) == set()
    await follow(plant, 1)
    await plant.forget()

    assert await plant.steps() == {}
    assert {"dag:D", "follow:D"} < await expiring(harness, **plant.names)


@pytest.mark.parametrize("end", ["cancelled", "discarded"])
async def test_nothing_follows_one_that_did_not_complete(harness: Harness, end: str) -> None:
    plant = await followed(harness, on_failure="fail_fast")
    if end == "cancelled":
        await plant.cancel("no need")
    else:
        await run(plant, a="dead")
        await plant.cancel()
        await harness.queue.dead.discard(plant.ids["a"])

    assert await plant.field("finished") is not None
    assert "follow" not in await plant.steps()


async def test_where_none_follows_there_is_no_text(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    before = await harness.dump()

    assert await follow(plant) == ["OK", ""]
    assert await harness.dump() == before
