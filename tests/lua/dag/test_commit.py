"""commit: a DAG becomes visible at once; its tasks begin in bounded steps of any client."""

from __future__ import annotations

from typing import Literal

import pytest

from rqueue import State
from rqueue.dags import store as dag_store
from rqueue.errors import DagNotFound
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, committed_dag, fan, run, running, settled, unsent_dag
from tests.lua.dag.test_submit import INSIDE, LANE, TASK
from tests.lua.rows import submitted
from tests.lua.task.keyspace import mailbox_lines, waiting_claim


async def test_roots_are_ready_and_the_others_wait(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()

    assert await dag.commit() == ["OK", 0]

    assert await dag.after() == LANE | {
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


async def test_a_scheduled_task_waits_for_its_time(harness: Harness) -> None:
    dag = await unsent_dag(harness, {"a": []}, options={"a": {"delay": 60_000}}).written()

    await dag.commit()

    found = await dag.after()
    assert (found["delayed"], found["blocked"], found["waits:a"]) == (["a"], ["a"], ["@time"])
    await harness.make_due(dag.ids["a"])
    await harness.promoter.tick()
    assert await dag.states() == {"a": "READY"}


@pytest.mark.parametrize("total", [3, 5, ""])
async def test_an_incomplete_dag_is_not_committed(harness: Harness, total: int | str) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    before = await harness.dump()

    assert await dag.commit(total=total) == ["STATE", f"writing 4 of {total}"]
    assert await harness.dump() == before


async def test_an_unknown_dag_is_gone(harness: Harness) -> None:
    dag = unsent_dag(harness, DIAMOND)

    assert await dag.commit() == ["GONE"]
    assert await harness.dump() == {}


async def test_the_first_step_makes_all_tasks_visible(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5, to_one=True)).written()

    assert await dag.commit(limit=2) == ["OK", 1]

    assert await dag.counted() == {"READY": 2, "PENDING": 1, "CREATED": 3}
    assert await dag.steps() == {"commit": "2"}
    assert (await harness.queue.get(dag.ids["4"])).state is State.CREATED
    assert (await dag.after())["stats"] == {"1:CREATED": 3, "1:PENDING": 1, "submitted": 6}


async def test_another_client_continues_the_commit(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5, to_one=True)).written()
    await dag.commit(limit=2)

    assert [await dag.commit(total="", limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    assert await dag.counted() == {"READY": 5, "PENDING": 1}
    assert await dag.steps() == {}
    found = await dag.after()
    assert found["stats"] == {"1:PENDING": 1, "submitted": 6}
    assert "fresh:D" not in found


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await harness.dump()

    assert await dag.commit() == ["OK", 0]
    assert await dag.commit(total="") == ["OK", 0]
    assert await harness.dump() == before


async def test_the_services_finish_an_interrupted_commit(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5, to_one=True)).written()
    await dag.commit(limit=1)

    await settled(harness)

    assert await dag.counted() == {"READY": 5, "PENDING": 1}


async def test_a_completed_root_unblocks_a_dependent_that_is_not_committed_yet(
    harness: Harness,
) -> None:
    more = {"b": {"trigger": "all_done"}}
    dag = await unsent_dag(harness, {"a": [], "b": ["a"], "c": ["b"]}, more=more).written()
    await dag.commit(limit=1)

    await run(dag, a="done")

    assert await dag.states() == {"a": "COMPLETED", "b": "CREATED", "c": "PENDING"}
    assert await dag.commit(total="") == ["OK", 0]
    assert await dag.states() == {"a": "COMPLETED", "b": "READY", "c": "PENDING"}
    assert (await dag.after())["lane:1"] == ["b"]


async def test_a_dead_root_cancels_dependents_that_are_not_committed_yet(
    harness: Harness,
) -> None:
    edges = {"a": [], "b": ["a"], "c": ["b"], "d": []}
    dag = await unsent_dag(harness, edges, on_failure="continue").written()
    await dag.commit(limit=1)

    await run(dag, a="dead")
    await settled(harness)

    assert await dag.states() == {
        "a": "DEAD_LETTERED", "b": "CANCELLED", "c": "CANCELLED", "d": "READY",
    }  # fmt: skip


async def test_an_outside_dependency_that_completes_meanwhile_is_met(harness: Harness) -> None:
    outside = await submitted(harness)
    dag = await unsent_dag(harness, {"a": []}, outside={"a": [outside]}).written()
    (lease,) = await running(harness)
    await lease.complete()

    await dag.commit()

    assert await dag.states() == {"a": "READY"}


@pytest.mark.parametrize(("rule", "state"), [("cascade", "CANCELLED"), ("unblock", "READY")])
async def test_an_outside_dependency_that_is_cancelled_meanwhile_cancels_its_dependent(
    harness: Harness, rule: Literal["cascade", "unblock"], state: str
) -> None:
    outside = await submitted(harness)
    dag = await unsent_dag(
        harness, {"a": [], "b": ["a"], "c": []}, outside={"a": [outside]}
    ).written()
    await harness.queue.cancel(f"task_{outside}", dependents=rule)
    await harness.promoter.tick()

    await dag.commit()
    await harness.promoter.tick()

    states = await dag.states()
    assert (states["a"], states["c"]) == (state, "READY")
    assert "lost" not in (await dag.after())["task:a"]
    if rule == "cascade":
        assert states["b"] == "CANCELLED"
        task = await harness.queue.get(dag.ids["a"])
        assert task.cancel_reason == f"Parent task_{outside} cancelled"


async def test_an_outside_dependency_that_completes_meanwhile_cancels_its_one_failed_dependent(
    harness: Harness,
) -> None:
    outside = await submitted(harness)
    more = {"a": {"trigger": "one_failed"}}
    dag = await unsent_dag(harness, {"a": []}, more=more, outside={"a": [outside]}).written()
    (lease,) = await running(harness)
    await lease.complete()
    await harness.promoter.tick()

    await dag.commit()
    await harness.promoter.tick()

    assert await dag.states() == {"a": "CANCELLED"}


async def test_waiting_claims_are_answered(harness: Harness) -> None:
    await submitted(harness)
    await running(harness)
    waiter = await waiting_claim(harness)
    dag = await unsent_dag(harness, {"a": []}).written()

    assert await dag.commit() == ["OK", 0]

    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {dag.ids['a'].ulid} ")


async def test_a_dag_is_not_visible_before_its_commit(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()

    with pytest.raises(DagNotFound):
        await dag_store.read(harness.queue._internals.shard, dag.draft.id)
    await dag.commit()
    assert (await dag_store.read(harness.queue._internals.shard, dag.draft.id)).total == 4
