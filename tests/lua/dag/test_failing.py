"""Failing: the effect of a dead task on its DAG, by the rule of its producer."""

from __future__ import annotations

from itertools import product

import pytest

from rqueue import State
from rqueue.errors import DagEnded
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS, ending
from tests.harness import Harness
from tests.lua.dag.dags import committed_dag, fan, run, running, settled, unsent_dag
from tests.lua.task.keyspace import run_move

FORK = {"a": [], "b": ["a"], "c": ["b"], "z": []}


def events(found: dict[str, object], prefix: str = "dag.") -> list[tuple[str, str]]:
    """The events of a kind, with their details."""
    listed = found.get("events", [])
    assert isinstance(listed, list)
    return [(one["event"], one["detail"]) for one in listed if one["event"].startswith(prefix)]


async def test_with_hold_dependents_wait_and_others_run(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK)

    await run(dag, a="dead")
    await settled(harness)

    assert await dag.states() == {
        "a": "DEAD_LETTERED", "b": "PENDING", "c": "PENDING", "z": "READY",
    }  # fmt: skip
    assert await dag.facts() == ("failed", "3", "1", "0")
    found = await dag.after()
    assert events(found) == [("dag.failed", "1")]
    assert (found["task:b"]["sole"], found["task:a"]["down"]) == ("1", "b")


async def test_a_retried_task_continues_the_dag(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK)
    await run(dag, a="dead")

    await harness.queue.dead.retry(dag.ids["a"])

    assert await dag.facts() == ("running", "4", "0", "0")
    await run(dag, a="done", b="done", c="done", z="done")
    assert await dag.facts() == ("completed", "0", "0", "0")


async def test_with_continue_dependents_of_a_dead_task_are_cancelled(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK, on_failure="continue")

    await run(dag, a="dead")
    await settled(harness)

    assert await dag.facts() == ("failed", "1", "1", "2")
    task = await harness.queue.get(dag.ids["b"])
    assert task.cancel_reason == f"Parent {dag.ids['a']} dead-lettered"
    await run(dag, z="done")
    assert await dag.facts() == ("failed", "0", "1", "2")
    assert await dag.field("finished") is None


async def test_with_continue_dependents_of_a_retried_task_are_kept(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK, on_failure="continue")
    await run(dag, a="dead")

    await harness.queue.dead.retry(dag.ids["a"])

    assert "cancelling" not in await dag.after()
    await settled(harness)
    assert await dag.facts() == ("running", "4", "0", "0")
    await run(dag, a="done", b="done", c="done", z="done")
    assert await dag.facts() == ("completed", "0", "0", "0")


async def test_a_retry_stops_the_rest_of_a_cascade(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(9), on_failure="continue")
    await run(dag, a="dead")
    terms = harness.queue._internals.shard.terms
    args: dict[str, Argument] = {
        "reason": "", "dependents": "cascade", "limit": 3, "how": ending(terms), **ANSWER_LIMITS,
        "request": "r",
    }  # fmt: skip
    assert await run_move(harness, "task/cancel", args) == ["OK", 2, 3]

    await harness.queue.dead.retry(dag.ids["a"])
    await settled(harness)

    assert await dag.counted() == {"READY": 1, "CANCELLED": 3, "PENDING": 6}
    await run(dag, a="done")
    assert await dag.counted() == {"COMPLETED": 1, "CANCELLED": 3, "READY": 6}


async def test_a_cascade_checks_that_the_task_is_still_dead(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK, on_failure="continue")
    step = {f"children {dag.ids['a'].ulid}": "cascade dead-lettered"}
    await harness.client.hset(harness.keys.cancelling(), mapping=step)

    await harness.promoter.tick()

    assert (await dag.states())["b"] == "PENDING"
    assert "cancelling" not in await dag.after()


async def test_fail_fast_blocks_claims_at_once_and_cancels_the_rest(
    harness: Harness,
) -> None:
    dag = await committed_dag(harness, FORK, on_failure="fail_fast")

    await run(dag, a="dead")

    assert await dag.field("closing") == "failed"
    assert await dag.steps() == {"cancel": "0"}
    assert await harness.queue.claim(worker="w1", n=9) == []
    await settled(harness)
    assert await dag.facts() == ("failed", "0", "1", "3")
    reasons = {(await harness.queue.get(dag.ids[name])).cancel_reason for name in "bcz"}
    assert "a task of the DAG failed for good" in reasons
    assert "held:D" not in await dag.after()


@pytest.mark.parametrize("first", ["discard", "cancel"])
async def test_a_failure_is_emitted_once(harness: Harness, first: str) -> None:
    dag = await committed_dag(harness, FORK, on_failure="fail_fast")
    await run(dag, a="dead")
    if first == "cancel":
        await settled(harness)

    await harness.queue.dead.discard(dag.ids["a"])
    await settled(harness)

    assert await dag.facts() == ("failed", "0", "0", "4")
    assert await dag.field("finished") is not None
    assert events(await dag.after()) == [("dag.failed", "1")]


async def test_each_change_to_failed_is_emitted(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []}, on_failure="fail_fast")
    await run(dag, a="dead")
    await settled(harness)
    await harness.queue.dead.retry(dag.ids["a"])

    await run(dag, a="dead")
    await settled(harness)
    await harness.queue.dead.discard(dag.ids["a"])

    assert events(await dag.after()) == [("dag.failed", "1")] * 2


async def test_a_task_cannot_be_retried_while_its_dag_is_cancelled(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK, on_failure="fail_fast")
    await run(dag, a="dead")
    args: dict[str, Argument] = {
        "task": dag.ids["a"].ulid, "life": 1, "def": "", "delay": 0, "tries": 9, "steps": 9,
        "page": 9, "terms": '{"events":9,"reviews":0}', "review": "",
    }  # fmt: skip
    before = await harness.dump()

    assert await run_move(harness, "task/revive", args) == ["CLOSING", dag.ulid]

    assert await harness.dump() == before
    with pytest.raises(DagEnded):
        await harness.queue.dead.retry(dag.ids["a"])


async def test_a_cancelled_dag_continues_with_a_retried_task(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK, on_failure="fail_fast")
    await run(dag, a="dead")
    await settled(harness)

    await harness.queue.dead.retry(dag.ids["a"])

    assert await dag.facts() == ("running", "1", "0", "3")
    assert (await dag.field("closing"), await dag.field("why")) == (None, None)
    await run(dag, a="dead")
    assert await dag.field("closing") == "failed"
    await settled(harness)
    await harness.queue.dead.retry(dag.ids["a"])
    await run(dag, a="done")
    assert await dag.facts() == ("completed", "0", "0", "3")


async def test_discarding_the_last_dead_ends_it(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK)
    await run(dag, a="dead", z="done")

    await harness.queue.dead.discard(dag.ids["a"])
    await harness.promoter.tick()

    assert await dag.facts() == ("completed", "0", "0", "3")
    assert await dag.field("finished") is not None
    assert events(await dag.after()) == [("dag.failed", "1"), ("dag.completed", "4")]


@pytest.mark.parametrize(("threshold", "at"), [("2.0", 2), ("0.5", 2), ("0.26", 2), ("1.0", 1)])
async def test_many_dead_tasks_are_escalated_once(
    harness: Harness, threshold: str, at: int
) -> None:
    dag = await committed_dag(harness, {name: [] for name in "abcd"}, threshold=threshold)

    for number, name in enumerate("abcd", 1):
        await run(dag, **{name: "dead"})
        assert (await dag.field("escalated") is not None) is (number >= at)
    await harness.queue.dead.retry(dag.ids["a"])
    await run(dag, a="dead")

    assert await dag.field("escalated") == str(at)
    found = [one for one in events(await dag.after()) if one[0] == "dag.escalated"]
    assert found == [("dag.escalated", str(at))]


async def test_watchers_are_notified_of_a_failure(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    args: dict[str, Argument] = {"box": "x", "keep_ms": 60_000}
    await run_move(harness, "task/watch", args, [(f"dag_{dag.ulid}",)])

    await run(dag, a="dead", b="dead")

    assert (await dag.after())["mail:x"] == ["ended dag_D"]
    assert await run_move(harness, "task/watch", args, [(f"dag_{dag.ulid}",)]) == ["OK", "failed"]


async def test_a_task_that_died_of_lost_leases_counts_too(harness: Harness) -> None:
    dag = await committed_dag(harness, FORK)
    args: dict[str, Argument] = {
        "idle_ms": 0, "archive": 0, "keep": 9, "events": 9, "tries": 9, "max_lanes": 9,
    }  # fmt: skip
    (lease,) = [one for one in await running(harness, 2) if one.id == dag.ids["a"]]

    row = (lease.id.ulid, lease.token, "", 1, 1, "lost", "", "code", "", "", "", "")
    assert await run_move(harness, "task/reap", args, [row]) == ["OK", 0, "DEAD_LETTERED"]

    assert await dag.facts() == ("failed", "3", "1", "0")


@pytest.mark.parametrize(
    ("rule", "facts"),
    [("cancel", ("pending", "2", "0", "1")), ("fail", ("failed", "2", "1", "0"))],
)
async def test_a_deadline_that_passes_counts_too(
    harness: Harness, rule: str, facts: tuple[str, ...]
) -> None:
    more = {"a": {"deadline": 1, "on_deadline": rule}}
    dag = await committed_dag(harness, {"a": [], "b": ["a"], "c": []}, more=more)
    how = '{"archive":"0","ttl":9,"events":9}'

    reply = await run_move(harness, "task/expire", {"limit": 9, "how": how, "again_ms": 9})

    assert reply == ["OK", 0, 1]
    assert await dag.facts() == facts


async def test_a_deadline_does_not_expire_an_uncommitted_task(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    more = {"x": {"deadline": 1, "on_deadline": "fail"}}
    hidden = await unsent_dag(harness, {"x": []}, more=more).written()
    how = '{"archive":"0","ttl":9,"events":9}'

    reply = await run_move(harness, "task/expire", {"limit": 9, "how": how, "again_ms": 60_000})

    assert reply == ["OK", 0, 0]
    assert await hidden.states() == {"x": "CREATED"}
    assert (await hidden.after())["deadlines"] == ["x"]
    assert await dag.states() == {"a": "READY"}


WAYS = ("done", "cancelled", "revived", "discarded")


@pytest.mark.parametrize("ways", [*product(WAYS, WAYS, WAYS)], ids=" ".join)
async def test_the_dag_ends_whatever_the_order(alone: Harness, ways: tuple[str, ...]) -> None:
    dag = await committed_dag(alone, {name: [] for name in "abc"})
    ends = dict(zip("abc", ways, strict=True))
    for name in [one for one, way in ends.items() if way in ("revived", "discarded")]:
        await run(dag, **{name: "dead"})
        assert (await dag.facts())[0] == "failed"

    for name, way in ends.items():
        assert await dag.field("finished") is None
        match way:
            case "done":
                await run(dag, **{name: "done"})
            case "cancelled":
                await alone.queue.cancel(dag.ids[name])
            case "discarded":
                await alone.queue.dead.discard(dag.ids[name])
            case _:
                await alone.queue.dead.retry(dag.ids[name])
                await run(dag, **{name: "done"})

    given_up = sum(way in ("cancelled", "discarded") for way in ways)
    status = "cancelled" if given_up == 3 else "completed"
    assert await dag.facts() == (status, "0", "0", str(given_up))
    assert await dag.field("finished") is not None
    assert events(await dag.after())[-1] == (f"dag.{status}", "3")


async def test_a_long_cascade_names_each_dependency(alone: Harness) -> None:
    edges = {"0": [], **{str(at): [str(at - 1)] for at in range(1, 1001)}}
    dag = await committed_dag(alone, edges)

    await alone.queue.cancel(dag.ids["0"])

    assert await dag.facts() == ("cancelled", "0", "0", "1001")
    last = await alone.queue.get(dag.ids["1000"])
    assert last.cancel_reason == f"Parent {dag.ids['999']} cancelled"


async def test_with_unblock_dependents_of_a_cancelled_task_run(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(3))

    await harness.queue.cancel(dag.ids["a"], dependents="unblock")

    assert await dag.counted() == {"CANCELLED": 1, "READY": 3}
    assert (await harness.queue.counts())[State.READY] == 3
    await run(dag, **{str(at): "done" for at in range(3)})
    assert await dag.facts() == ("completed", "0", "0", "1")


async def test_a_retried_task_completes_after_its_only_dependent_was_cancelled(
    harness: Harness,
) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"], "c": []}, on_failure="continue")
    await run(dag, a="dead")
    await settled(harness)
    await harness.queue.dead.retry(dag.ids["a"])

    await run(dag, a="done", c="done")

    assert await dag.states() == {"a": "COMPLETED", "b": "CANCELLED", "c": "COMPLETED"}
    assert await dag.facts() == ("completed", "0", "0", "1")
