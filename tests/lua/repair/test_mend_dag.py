"""mend: what a crash tore out of a DAG's indexes is put back, and in a healthy one nothing."""

from __future__ import annotations

import pytest

from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.dag.planted import Planted, a_plant, fan, planted, run, running, settled
from tests.lua.task.keys_after import ask

HEIR = {"a": [], "x": ["a"]}


async def mended(plant: Planted) -> int:
    """How many repairs the sweep says it has made in a DAG."""
    rows = [(task.ulid,) for task in plant.ids.values()]
    said = await ask(plant.harness, "repair/mend", {"parents": 100}, rows)
    found: int = said[1]
    return found


async def test_a_healthy_dag_is_not_touched_at_any_moment(harness: Harness) -> None:
    edges = {"a": [], "b": ["a"], "x": ["a", "b"], "y": ["a"], "z": ["b"]}
    more = {"x": {"trigger": "all_done"}, "y": {"trigger": "one_failed"}}
    plant = await a_plant(harness, edges, more=more, asks={"z": {"delay": 60_000}}).written()
    found = [await mended(plant)]
    await plant.commit(limit=2)
    found.append(await mended(plant))
    await plant.commit(total="")
    await plant.pause()
    found.append(await mended(plant))
    await plant.resume()
    (lease,) = await running(harness)
    found.append(await mended(plant))
    await lease.fail(permanent=True)
    found.append(await mended(plant))
    await harness.promoter.tick()
    found.append(await mended(plant))
    await harness.queue.dead.retry(plant.ids["a"])
    await run(plant, a="done")
    found.append(await mended(plant))
    await plant.cancel("no need", limit=2)
    found.append(await mended(plant))
    await settled(harness)
    found.append(await mended(plant))

    assert found == [0] * 9
    assert await harness.client.hget(harness.keys.stats(), "repaired") is None


@pytest.mark.parametrize("step", [1, 2])
async def test_a_cascade_on_its_way_is_not_touched(harness: Harness, step: int) -> None:
    plant = await planted(harness, fan(5))
    how = '{"archive":"0","ttl":9,"events":9}'
    args: dict[str, Argument] = {
        "reason": "", "dependents": "cascade", "limit": 2, "how": how, "request": "r",
        **ANSWER_LIMITS,
    }  # fmt: skip
    await ask(harness, "task/cancel", args, [(plant.ids["a"].ulid,)])
    for _ in range(step):
        await ask(harness, "task/cancel", args)
    before = await harness.dump()

    assert await mended(plant) == 0
    assert await harness.dump() == before


async def test_one_that_no_parent_failed_for_is_left_to_be_given_up(harness: Harness) -> None:
    plant = await planted(harness, HEIR, more={"x": {"trigger": "one_failed"}})
    await run(plant, a="done")
    assert "x" in (await plant.after())["cancelling"]
    before = await harness.dump()

    assert await mended(plant) == 0
    assert await harness.dump() == before


async def test_an_heir_that_was_lost_is_told_again(harness: Harness) -> None:
    plant = await planted(harness, HEIR, more={"x": {"trigger": "all_done"}})
    await harness.client.delete(harness.keys.triggered(plant.ids["a"].ulid))

    assert await mended(plant) == 1

    assert (await plant.after())["heirs:a"] == {"x": "all_done"}
    await run(plant, a="done")
    assert (await plant.states())["x"] == "READY"


async def test_an_end_that_was_not_told_is_told(harness: Harness) -> None:
    plant = await planted(harness, HEIR, more={"x": {"trigger": "all_done"}})
    await run(plant, a="dead")
    await harness.client.delete(harness.keys.telling())

    assert await mended(plant) == 1
    await harness.promoter.tick()

    assert (await plant.states())["x"] == "READY"
    assert await mended(plant) == 0


async def test_a_skipped_one_that_was_forgotten_is_given_up(harness: Harness) -> None:
    plant = await planted(harness, HEIR, more={"x": {"trigger": "one_failed"}})
    await run(plant, a="done")
    await harness.client.delete(harness.keys.cancelling())

    assert await mended(plant) == 1
    await harness.promoter.tick()

    assert (await plant.states())["x"] == "CANCELLED"


async def test_a_commit_that_was_forgotten_goes_on(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5, to_one=True)).written()
    await plant.commit(limit=1)
    await harness.client.delete(harness.keys.unfinished(), harness.keys.fresh(plant.dag))

    for _ in range(4):
        assert await mended(plant) == 1
        await settled(harness)

    assert await plant.counted() == {"READY": 5, "PENDING": 1}


@pytest.mark.parametrize("torn", ["writing", "dag", "members"])
async def test_half_a_dag_that_lost_its_index_is_dropped(harness: Harness, torn: str) -> None:
    plant = await a_plant(harness, fan(5)).written()
    lost = {
        "writing": [harness.keys.writing()],
        "dag": [harness.keys.dag(plant.dag)],
        "members": [harness.keys.dag(plant.dag), harness.keys.members(plant.dag)],
    }[torn]
    await harness.client.delete(*lost)

    assert await mended(plant) > 0
    await harness.client.zadd(harness.keys.writing(), {plant.dag: 1})
    await settled(harness)

    assert set(await plant.after()) == {"lanes", "stats"}


async def test_a_task_that_was_neither_held_back_nor_in_its_lane_is_found(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    await plant.pause()
    await harness.client.delete(harness.keys.held(plant.dag))

    assert await mended(plant) == 1

    assert (await plant.after())["lane:1"] == ["a"]
    assert await harness.queue.claim(worker="w1") == []
    await plant.resume()
    assert len(await harness.queue.claim(worker="w1")) == 1


@pytest.mark.parametrize("held", [False, True])
async def test_one_that_is_given_up_is_gone_on_with(harness: Harness, held: bool) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"], "c": [], "d": []})
    await plant.cancel("no need", limit=1)
    if held:
        assert await harness.queue.claim(worker="w1", n=9) == []
    await harness.client.delete(harness.keys.unfinished(), harness.keys.cancelling())

    assert await mended(plant) == 2
    await settled(harness)

    assert await plant.counted() == {"CANCELLED": 4}
    assert await plant.facts() == ("cancelled", "0", "0", "4")
