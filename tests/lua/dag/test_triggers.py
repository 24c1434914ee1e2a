"""Triggers: dependents with all_done or one_failed are resolved at each end of a dependency."""

from __future__ import annotations

from itertools import product

import pytest

from rqueue.core.timers import promote
from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, run, settled, unsent_dag
from tests.lua.rows import a_row, submit, submitted
from tests.lua.task.keyspace import run_move

ENDS = ("done", "dead", "cancelled")
TWO = {"a": [], "b": [], "x": ["a", "b"]}


async def end(dag: StoredDag, name: str, how: str) -> None:
    """Ends a task in one of three ways, and resolves its dependents."""
    if how == "cancelled":
        await dag.harness.queue.cancel(dag.ids[name])
    else:
        await run(dag, **{name: how})
    await dag.harness.promoter.tick()


async def triggered_dag(harness: Harness, trigger: str, delay: int = 0, **facts: str) -> StoredDag:
    options = {"x": {"delay": delay}} if delay else {}
    return await committed_dag(
        harness, TWO, more={"x": {"trigger": trigger}}, options=options, **facts
    )


@pytest.mark.parametrize(("first", "second"), [*product(ENDS, ENDS)])
@pytest.mark.parametrize("rule", ["hold", "continue"])
async def test_all_done_runs_when_every_dependency_has_ended(
    alone: Harness, first: str, second: str, rule: str
) -> None:
    dag = await triggered_dag(alone, "all_done", on_failure=rule)

    await end(dag, "b", first)
    assert (await dag.states())["x"] == "PENDING"
    await end(dag, "a", second)

    assert (await dag.states())["x"] == "READY"
    found = await dag.after()
    assert not {"waits:x", "heirs:a", "heirs:b", "telling", "cancelling", "blocked"} & set(found)


@pytest.mark.parametrize(("first", "second"), [*product(ENDS, ENDS)])
async def test_one_failed_runs_at_the_first_failure_and_is_cancelled_without_one(
    alone: Harness, first: str, second: str
) -> None:
    dag = await triggered_dag(alone, "one_failed")

    await end(dag, "b", first)
    assert (await dag.states())["x"] == ("READY" if first == "dead" else "PENDING")
    await end(dag, "a", second)

    failed = "dead" in (first, second)
    assert (await dag.states())["x"] == ("READY" if failed else "CANCELLED")
    found = await dag.after()
    assert not {"waits:x", "heirs:a", "heirs:b", "telling", "cancelling", "blocked"} & set(found)
    if not failed:
        assert found["task:x"]["why"] == "no parent failed"


@pytest.mark.parametrize("trigger", ["all_done", "one_failed"])
async def test_a_triggered_task_still_waits_for_its_own_time(
    harness: Harness, trigger: str
) -> None:
    dag = await triggered_dag(harness, trigger, delay=60_000)

    await end(dag, "a", "dead")
    await end(dag, "b", "done")

    assert (await dag.states())["x"] == "PENDING"
    assert (await dag.after())["waits:x"] == ["@time"]
    await harness.make_due(dag.ids["x"])
    await harness.promoter.tick()
    assert (await dag.states())["x"] == "READY"


async def test_a_one_failed_task_without_a_failure_does_not_run_at_its_time(
    harness: Harness,
) -> None:
    dag = await triggered_dag(harness, "one_failed", delay=60_000)
    await run(dag, a="done", b="done")
    await run_move(harness, "task/unblock", {"limit": 10, "tries": 10, "events": 9})
    await harness.make_due(dag.ids["x"])

    await promote(harness.queue._internals.shard)

    assert (await dag.states())["x"] == "PENDING"
    await harness.promoter.tick()
    assert await dag.facts() == ("completed", "0", "0", "1")


@pytest.mark.parametrize("trigger", ["all_done", "one_failed"])
async def test_a_dependency_retried_before_its_end_is_resolved_counts_at_its_next_end(
    harness: Harness, trigger: str
) -> None:
    edges = {"a": [], "x": ["a"]}
    dag = await committed_dag(harness, edges, more={"x": {"trigger": trigger}})
    await run(dag, a="dead")
    await harness.queue.dead.retry(dag.ids["a"])

    await harness.promoter.tick()

    assert (await dag.states())["x"] == "PENDING"
    assert "telling" not in await dag.after()
    await end(dag, "a", "done")
    assert (await dag.states())["x"] == ("READY" if trigger == "all_done" else "CANCELLED")


async def test_a_plain_dependent_of_a_dead_task_waits_beside_triggered_ones(
    harness: Harness,
) -> None:
    edges = {"a": [], "x": ["a"], "y": ["a"]}
    dag = await committed_dag(harness, edges, more={"x": {"trigger": "all_done"}})

    await end(dag, "a", "dead")

    assert await dag.states() == {"a": "DEAD_LETTERED", "x": "READY", "y": "PENDING"}


@pytest.mark.parametrize(
    ("trigger", "how", "state"),
    [
        ("all_done", "dead", "READY"),
        ("all_done", "cancelled", "READY"),
        ("one_failed", "dead", "READY"),
        ("one_failed", "cancelled", None),
        ("one_failed", "done", None),
    ],
)
async def test_a_dependency_that_ended_before_counts_by_the_trigger(
    harness: Harness, trigger: str, how: str, state: str | None
) -> None:
    dag = await committed_dag(harness, {"a": []})
    await end(dag, "a", how)
    dependency = dag.ids["a"].ulid
    row = a_row(more={"trigger": trigger}, options={"parents": [dependency]})

    reply = await submit(harness, [row])

    if state is None:
        assert reply == ["OK", 0, 0, "PARENT", dependency]
    else:
        found = (await dag.after())[f"task:{row.task}"]
        assert (reply, found["state"]) == (["OK", 0], state)


async def test_a_single_task_may_wait_for_any_end(harness: Harness) -> None:
    dependency = await submitted(harness)
    row = a_row(more={"trigger": "all_done"}, options={"parents": [dependency]})
    await submit(harness, [row])
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()

    await lease.fail(permanent=True)
    await settled(harness)

    states = [await harness.client.hget(harness.keys.task(row.task), "state")]
    assert states == [b"READY"]


async def dag_with_outside(
    harness: Harness, how: str, *, far: str = ""
) -> tuple[StoredDag, StoredDag]:
    """A DAG with a one_failed task that also depends on an outside one, and the DAG of that, which
    has ended before as `how` says.
    """
    elsewhere = await committed_dag(harness, {"e": [], "f": []})
    await end(elsewhere, "e", how)
    outside = {"x": [elsewhere.ids["e"].ulid, *([elsewhere.ids["f"].ulid] if far else [])]}
    more = {"x": {"trigger": "one_failed"}}
    return await committed_dag(
        harness, {"a": [], "x": ["a"]}, more=more, outside=outside
    ), elsewhere


async def test_an_outside_dependency_that_is_dead_already_is_the_first_failure(
    harness: Harness,
) -> None:
    dag, _ = await dag_with_outside(harness, "dead")

    assert (await dag.states())["x"] == "READY"
    found = await dag.after()
    assert not {"waits:x", "blocked", "telling"} & set(found)
    assert "fired" not in found["task:x"]
    await end(dag, "a", "done")
    await run(dag, x="done")
    assert await dag.facts() == ("completed", "0", "0", "0")


@pytest.mark.parametrize("how", ["done", "cancelled"])
@pytest.mark.parametrize("then", ENDS)
async def test_an_outside_dependency_that_ended_without_a_failure_leaves_it_to_the_others(
    harness: Harness, how: str, then: str
) -> None:
    dag, _ = await dag_with_outside(harness, how)
    assert (await dag.states())["x"] == "PENDING"

    await end(dag, "a", then)

    assert (await dag.states())["x"] == ("READY" if then == "dead" else "CANCELLED")


@pytest.mark.parametrize(("first", "then"), [*product(ENDS, ENDS)])
async def test_dependencies_inside_and_outside_the_dag_count_alike(
    alone: Harness, first: str, then: str
) -> None:
    dag, elsewhere = await dag_with_outside(alone, "done", far="f")

    await end(dag, "a", first)
    assert (await dag.states())["x"] == ("READY" if first == "dead" else "PENDING")
    await end(elsewhere, "f", then)

    assert (await dag.states())["x"] == ("READY" if "dead" in (first, then) else "CANCELLED")


async def test_a_failure_before_the_commit_is_kept_after_a_repeated_part(harness: Harness) -> None:
    elsewhere = await committed_dag(harness, {"e": []})
    outside = {"x": [elsewhere.ids["e"].ulid]}
    edges = {"a": [], "x": ["a"]}
    more = {"x": {"trigger": "one_failed"}}
    dag = await unsent_dag(harness, edges, more=more, outside=outside).written()
    await end(elsewhere, "e", "dead")
    before = await harness.dump()

    await dag.written()

    assert (await harness.dump()).keys() == before.keys()
    await dag.commit(limit=1)
    await end(dag, "a", "done")
    await dag.commit()
    await settled(harness)
    assert await dag.states() == {"a": "COMPLETED", "x": "READY"}


async def test_a_triggered_task_waits_for_its_time_after_an_outside_failure(
    harness: Harness,
) -> None:
    elsewhere = await committed_dag(harness, {"e": []})
    await end(elsewhere, "e", "dead")
    outside = {"x": [elsewhere.ids["e"].ulid]}
    more, options = {"x": {"trigger": "one_failed"}}, {"x": {"delay": 60_000}}

    dag = await committed_dag(
        harness, {"a": [], "x": ["a"]}, more=more, options=options, outside=outside
    )

    assert (await dag.after())["waits:x"] == ["@time"]
    assert (await dag.states())["x"] == "PENDING"
