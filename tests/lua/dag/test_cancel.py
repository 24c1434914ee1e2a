"""cancel: all of a DAG is cancelled; after the first call none of its tasks can be claimed."""

from __future__ import annotations

import pytest

from rqueue.errors import LeaseLost
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, committed_dag, fan, run, running, settled, unsent_dag
from tests.lua.dag.test_submit import LANE, TASK
from tests.lua.rows import a_row, submit
from tests.lua.task.keyspace import run_move

ENDED = {"finished": "*", "settled": "cancel r", "state": "CANCELLED", "why": "no need"}


async def test_all_tasks_of_the_dag_end(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)

    assert await dag.cancel("no need") == ["OK", 0, 4]

    found = await dag.after()
    left = found.pop("cancelling")
    assert left == {f"children {name}": "cascade cancelled" for name in "abc"}
    assert found == LANE | {
        "dag:D": {
            "cancelled": "4", "closing": "cancelled", "created": "*", "dead": "0", "edges": "4",
            "before": "0", "finished": "*", "on_failure": "hold", "open": "0", "request": "r",
            "status": "cancelled", "total": "4", "why": "no need",
        },
        "members:D": ["a", "b", "c", "d"],
        "dags": ["D"],
        "unfinished": {"forget D": "0"},
        "task:a": TASK | ENDED | {"flags": "dD", "entry": "*"},
        "task:b": TASK | ENDED | {"flags": "oD", "up0": "a", "down": "d"},
        "task:c": TASK | ENDED | {"flags": "oD", "up0": "a", "down": "d"},
        "task:d": TASK | ENDED | {"flags": "uD", "up0": "b c"},
        "ready": ([], {}),
        "events": [
            *({"event": "task.cancelled", "task": name, "detail": "no need"} for name in "abcd"),
            {"event": "dag.cancelled", "dag": "D", "detail": "4"},
        ],
        "stats": {"1:CANCELLED": 4, "submitted": 4},
    }  # fmt: skip


async def test_many_tasks_end_in_pages(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(599))

    assert await dag.cancel("no need") == ["OK", 1, 250]
    assert await dag.steps() == {"cancel": "250"}
    assert await dag.cancel("no need") == ["OK", 1, 500]
    assert await dag.cancel("no need") == ["OK", 0, 600]

    assert await dag.facts() == ("cancelled", "0", "0", "600")
    assert await dag.steps() == {"forget": "0"}


async def test_no_task_can_be_claimed_after_the_first_call(harness: Harness) -> None:
    dag = await committed_dag(harness, {str(at): [] for at in range(30)})
    other = (await harness.queue.enqueue("code")).id

    await dag.cancel("no need", limit=1)

    leases = await harness.queue.claim(worker="w1", n=50)
    assert [lease.id for lease in leases] == [other]
    found = await dag.after()
    assert len(found["held:D"]) == 29
    assert found["stats"]["1:READY"] == 29
    await dag.cancel(limit=50)
    assert not {"held:D", "lane:1"} & set(await dag.after())
    assert await dag.facts() == ("cancelled", "0", "0", "30")


async def test_the_services_continue_after_a_caller_died(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(9))
    await dag.cancel("no need", limit=2)

    await settled(harness)

    assert await dag.facts() == ("cancelled", "0", "0", "10")
    assert "cancelling" not in await dag.after()


async def test_the_step_of_a_dag_that_ended_meanwhile_is_removed(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": [], "c": []})
    await run(dag, c="done", b="done")
    await dag.cancel("no need", limit=1)
    assert await dag.facts() == ("cancelled", "0", "0", "1")
    assert "cancel" in await dag.steps()

    await settled(harness)

    assert await dag.steps() == {}


async def test_the_holder_of_a_task_is_fenced(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    (lease,) = await running(harness)

    await dag.cancel("no need")

    with pytest.raises(LeaseLost):
        await lease.complete()


async def test_tasks_that_the_commit_has_not_reached_end_too(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5)).written()
    await dag.commit(limit=2)

    assert await dag.cancel("no need") == ["OK", 0, 6]
    assert await dag.commit(total="") == ["OK", 0]

    assert await dag.counted() == {"CANCELLED": 6}
    assert (await dag.after())["stats"] == {"1:CANCELLED": 6, "submitted": 6}


async def test_dependents_outside_the_dag_are_cancelled_and_name_it(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"]})
    outside = unsent_dag(harness, {"x": [], "y": ["x"]}, outside={"x": [dag.ids["b"].ulid]})
    await outside.written()
    await outside.commit()

    await dag.cancel("no need")
    await settled(harness)

    assert await outside.counted() == {"CANCELLED": 2}
    task = await harness.queue.get(outside.ids["x"])
    assert task.cancel_reason == f"Parent {dag.ids['b']} cancelled"
    assert await outside.facts() == ("cancelled", "0", "0", "2")


async def test_dead_tasks_stay_until_they_are_resolved(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    await run(dag, a="dead")

    assert await dag.cancel("no need") == ["OK", 0, 1]

    assert await dag.facts() == ("failed", "0", "1", "1")
    await harness.queue.dead.discard(dag.ids["a"])
    assert await dag.facts() == ("cancelled", "0", "0", "2")


async def test_a_dag_with_only_dead_tasks_left_is_not_cancelled(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"]})
    await run(dag, a="dead")
    await dag.cancel("no need")
    before = await harness.dump()

    assert await dag.cancel("no need", request="another") == ["STATE", "failed"]
    assert await harness.dump() == before


async def test_tasks_that_other_calls_cancel_for_it_are_counted(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(5), on_failure="fail_fast")
    await run(dag, a="dead")
    assert await dag.cancel(limit=2, request="keeper") == ["OK", 1, 1]

    assert await dag.cancel("no need", limit=2) == ["OK", 1, 3]
    assert await dag.cancel(limit=9, request="keeper") == ["OK", 0, 5]

    assert await dag.cancel("no need", limit=2) == ["OK", 0, 5]
    assert await dag.cancel("no need", request="another") == ["STATE", "failed"]


async def test_tasks_that_its_cascade_cancels_first_are_counted(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(5))
    assert await dag.cancel("no need", limit=1) == ["OK", 1, 1]
    await harness.promoter.tick()

    assert await dag.cancel("no need") == ["OK", 0, 6]


async def test_an_ended_dag_is_refused(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    await run(dag, a="done")
    before = await harness.dump()

    assert await dag.cancel("no need") == ["STATE", "completed"]
    assert await harness.dump() == before


async def test_a_repeated_call_gets_the_same_reply(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    await dag.cancel("no need")
    before = await harness.dump()

    assert await dag.cancel("no need") == ["OK", 0, 4]
    assert await dag.cancel("no need", request="another") == ["STATE", "cancelled"]
    assert await harness.dump() == before


async def test_a_call_without_a_reason_only_continues(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await harness.dump()

    assert await dag.cancel() == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_an_uncommitted_dag_is_gone(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    before = await harness.dump()

    assert await dag.cancel("no need") == ["GONE"]
    assert await unsent_dag(harness, DIAMOND).cancel("no need") == ["GONE"]
    assert await harness.dump() == before


async def test_a_task_cannot_join_a_cancelled_dag(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    await running(harness)
    await dag.cancel("no need", limit=1)
    dependent = a_row(options={"parents": [dag.ids["b"].ulid]})

    assert await submit(harness, [dependent]) == ["OK", 0]

    assert await dag.field("total") == "2"
    await settled(harness)
    assert (await harness.queue.get(f"task_{dependent.task}")).state == "CANCELLED"


async def test_all_cancelled_tasks_go_to_the_archive(archived_harness: Harness) -> None:
    dag = await committed_dag(archived_harness, {"a": [], "b": ["a"]})

    await dag.cancel("no need")

    found = await dag.after()
    assert found["outbox"] == [{"a": "1 CANCELLED", "b": "1 CANCELLED"}]
    assert found["stats"]["outbox"] == 2


async def test_watchers_of_the_dag_are_notified(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    args: dict[str, Argument] = {"box": "x", "keep_ms": 60_000}
    assert await run_move(harness, "task/watch", args, [(f"dag_{dag.ulid}",)]) == ["OK", "pending"]

    await dag.cancel("no need")

    found = await dag.after()
    assert found["mail:x"] == ["ended dag_D"]
    assert "watchers:dag_D" not in found
    assert await run_move(harness, "task/watch", args, [(f"dag_{dag.ulid}",)]) == [
        "OK",
        "cancelled",
    ]


async def test_a_repeated_first_call_does_not_begin_again(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": [], "c": []})
    await run(dag, a="dead")
    assert await dag.cancel("enough", limit=1) == ["OK", 1, 0]
    # Another client finishes it, and the dead task is revived, before its caller continues.
    assert await dag.cancel(limit=9, request="other") == ["OK", 0, 2]
    await harness.queue.dead.retry(dag.ids["a"])

    assert await dag.cancel("enough", limit=1) == ["OK", 0, 2]

    assert await dag.states() == {"a": "READY", "b": "CANCELLED", "c": "CANCELLED"}
