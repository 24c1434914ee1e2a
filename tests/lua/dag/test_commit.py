"""commit: a DAG is there at once; its tasks begin in bounded steps that anybody may take."""

from __future__ import annotations

from typing import Literal

import pytest

from rqueue import State
from rqueue.dags import store as dag_store
from rqueue.errors import DagNotFound
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, a_plant, fan, planted, run, running, settled
from tests.lua.dag.test_submit import INSIDE, LANE, TASK
from tests.lua.rows import submitted
from tests.lua.task.keys_after import mail, parked


async def test_roots_are_ready_and_the_others_wait(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()

    assert await plant.commit() == ["OK", 0]

    assert await plant.after() == LANE | {
        "dag:D": {
            "cancelled": "0", "created": "*", "dead": "0", "edges": "4", "on_failure": "hold",
            "open": "4", "status": "pending", "total": "4",
        },
        "members:D": ["a", "b", "c", "d"],
        "dags": ["D"],
        "task:a": TASK | {"flags": "dD", "state": "READY", "entry": "*"},
        "task:b": INSIDE | {"flags": "oD", "up0": "a", "sole": "1", "down": "d"},
        "task:c": INSIDE | {"flags": "oD", "up0": "a", "sole": "1", "down": "d"},
        "task:d": INSIDE | {"flags": "uD", "up0": "b c"},
        "waits:d": ["b", "c"], "dependents:a": ["b", "c"], "lane:1": ["a"], "ready": (["a"], {}),
        "stats": {"1:PENDING": 3, "submitted": 4},
    }  # fmt: skip


async def test_one_with_a_time_waits_for_it(harness: Harness) -> None:
    plant = await a_plant(harness, {"a": []}, asks={"a": {"delay": 60_000}}).written()

    await plant.commit()

    found = await plant.after()
    assert (found["delayed"], found["blocked"], found["waits:a"]) == (["a"], ["a"], ["@time"])
    await harness.make_due(plant.ids["a"])
    await harness.promoter.tick()
    assert await plant.states() == {"a": "READY"}


@pytest.mark.parametrize("total", [3, 5, ""])
async def test_a_dag_that_is_not_written_whole_is_not_committed(
    harness: Harness, total: int | str
) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    before = await harness.dump()

    assert await plant.commit(total=total) == ["STATE", f"writing 4 of {total}"]
    assert await harness.dump() == before


async def test_one_that_is_not_there_is_gone(harness: Harness) -> None:
    plant = a_plant(harness, DIAMOND)

    assert await plant.commit() == ["GONE"]
    assert await harness.dump() == {}


async def test_the_first_step_makes_all_of_it_visible(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5, to_one=True)).written()

    assert await plant.commit(limit=2) == ["OK", 1]

    assert await plant.counted() == {"READY": 2, "PENDING": 1, "CREATED": 3}
    assert await plant.steps() == {"commit": "2"}
    assert (await harness.queue.get(plant.ids["4"])).state is State.CREATED
    assert (await plant.after())["stats"] == {"1:CREATED": 3, "1:PENDING": 1, "submitted": 6}


async def test_another_goes_on_where_the_first_stopped(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5, to_one=True)).written()
    await plant.commit(limit=2)

    assert [await plant.commit(total="", limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    assert await plant.counted() == {"READY": 5, "PENDING": 1}
    assert await plant.steps() == {}
    found = await plant.after()
    assert found["stats"] == {"1:PENDING": 1, "submitted": 6}
    assert "fresh:D" not in found


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await harness.dump()

    assert await plant.commit() == ["OK", 0]
    assert await plant.commit(total="") == ["OK", 0]
    assert await harness.dump() == before


async def test_the_services_finish_what_a_crash_left(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5, to_one=True)).written()
    await plant.commit(limit=1)

    await settled(harness)

    assert await plant.counted() == {"READY": 5, "PENDING": 1}


async def test_a_root_that_completes_first_frees_a_child_that_is_not_reached_yet(
    harness: Harness,
) -> None:
    more = {"b": {"trigger": "all_done"}}
    plant = await a_plant(harness, {"a": [], "b": ["a"], "c": ["b"]}, more=more).written()
    await plant.commit(limit=1)

    await run(plant, a="done")

    assert await plant.states() == {"a": "COMPLETED", "b": "CREATED", "c": "PENDING"}
    assert await plant.commit(total="") == ["OK", 0]
    assert await plant.states() == {"a": "COMPLETED", "b": "READY", "c": "PENDING"}
    assert (await plant.after())["lane:1"] == ["b"]


async def test_a_root_that_dies_first_gives_up_those_that_are_not_reached_yet(
    harness: Harness,
) -> None:
    edges = {"a": [], "b": ["a"], "c": ["b"], "d": []}
    plant = await a_plant(harness, edges, on_failure="continue").written()
    await plant.commit(limit=1)

    await run(plant, a="dead")
    await settled(harness)

    assert await plant.states() == {
        "a": "DEAD_LETTERED", "b": "CANCELLED", "c": "CANCELLED", "d": "READY",
    }  # fmt: skip


async def test_a_parent_outside_that_completes_meanwhile_is_met(harness: Harness) -> None:
    outside = await submitted(harness)
    plant = await a_plant(harness, {"a": []}, outside={"a": [outside]}).written()
    (lease,) = await running(harness)
    await lease.complete()

    await plant.commit()

    assert await plant.states() == {"a": "READY"}


@pytest.mark.parametrize(("rule", "state"), [("cascade", "CANCELLED"), ("unblock", "READY")])
async def test_a_parent_outside_that_is_cancelled_meanwhile_takes_its_child_along(
    harness: Harness, rule: Literal["cascade", "unblock"], state: str
) -> None:
    outside = await submitted(harness)
    plant = await a_plant(
        harness, {"a": [], "b": ["a"], "c": []}, outside={"a": [outside]}
    ).written()
    await harness.queue.cancel(f"task_{outside}", dependents=rule)
    await harness.promoter.tick()

    await plant.commit()
    await harness.promoter.tick()

    states = await plant.states()
    assert (states["a"], states["c"]) == (state, "READY")
    assert "lost" not in (await plant.after())["task:a"]
    if rule == "cascade":
        assert states["b"] == "CANCELLED"
        task = await harness.queue.get(plant.ids["a"])
        assert task.cancel_reason == f"Parent task_{outside} cancelled"


async def test_a_parent_outside_that_ends_meanwhile_without_a_failure_gives_its_heir_up(
    harness: Harness,
) -> None:
    outside = await submitted(harness)
    more = {"a": {"trigger": "one_failed"}}
    plant = await a_plant(harness, {"a": []}, more=more, outside={"a": [outside]}).written()
    (lease,) = await running(harness)
    await lease.complete()
    await harness.promoter.tick()

    await plant.commit()
    await harness.promoter.tick()

    assert await plant.states() == {"a": "CANCELLED"}


async def test_claims_that_wait_are_answered(harness: Harness) -> None:
    await submitted(harness)
    await running(harness)
    waiter = await parked(harness)
    plant = await a_plant(harness, {"a": []}).written()

    assert await plant.commit() == ["OK", 0]

    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {plant.ids['a'].ulid} ")


async def test_it_is_not_there_before(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()

    with pytest.raises(DagNotFound):
        await dag_store.read(harness.queue._internals.shard, plant.planting.id)
    await plant.commit()
    assert (await dag_store.read(harness.queue._internals.shard, plant.planting.id)).total == 4
