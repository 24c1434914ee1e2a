"""Triggers: who waits for any end, or for a failure, is told of each end in its turn."""

from __future__ import annotations

from itertools import product

import pytest

from rqueue.core.timers import promote
from tests.harness import Harness
from tests.lua.dag.planted import Planted, a_plant, planted, run, settled
from tests.lua.rows import a_row, submit, submitted
from tests.lua.task.keys_after import ask

ENDS = ("done", "dead", "cancelled")
TWO = {"a": [], "b": [], "x": ["a", "b"]}


async def end(plant: Planted, name: str, how: str) -> None:
    """Lets a task end in one of three ways, and who waits for it be told."""
    if how == "cancelled":
        await plant.harness.queue.cancel(plant.ids[name])
    else:
        await run(plant, **{name: how})
    await plant.harness.promoter.tick()


async def heir(harness: Harness, trigger: str, delay: int = 0, **facts: str) -> Planted:
    asks = {"x": {"delay": delay}} if delay else {}
    return await planted(harness, TWO, more={"x": {"trigger": trigger}}, asks=asks, **facts)


@pytest.mark.parametrize(("first", "second"), [*product(ENDS, ENDS)])
@pytest.mark.parametrize("rule", ["hold", "continue"])
async def test_all_done_runs_when_every_parent_has_ended(
    alone: Harness, first: str, second: str, rule: str
) -> None:
    plant = await heir(alone, "all_done", on_failure=rule)

    await end(plant, "b", first)
    assert (await plant.states())["x"] == "PENDING"
    await end(plant, "a", second)

    assert (await plant.states())["x"] == "READY"
    found = await plant.after()
    assert not {"waits:x", "heirs:a", "heirs:b", "telling", "cancelling", "blocked"} & set(found)


@pytest.mark.parametrize(("first", "second"), [*product(ENDS, ENDS)])
async def test_one_failed_runs_at_the_first_failure_and_is_given_up_without_one(
    alone: Harness, first: str, second: str
) -> None:
    plant = await heir(alone, "one_failed")

    await end(plant, "b", first)
    assert (await plant.states())["x"] == ("READY" if first == "dead" else "PENDING")
    await end(plant, "a", second)

    failed = "dead" in (first, second)
    assert (await plant.states())["x"] == ("READY" if failed else "CANCELLED")
    found = await plant.after()
    assert not {"waits:x", "heirs:a", "heirs:b", "telling", "cancelling", "blocked"} & set(found)
    if not failed:
        assert found["task:x"]["why"] == "no parent failed"


@pytest.mark.parametrize("trigger", ["all_done", "one_failed"])
async def test_its_own_time_is_still_waited_for(harness: Harness, trigger: str) -> None:
    plant = await heir(harness, trigger, delay=60_000)

    await end(plant, "a", "dead")
    await end(plant, "b", "done")

    assert (await plant.states())["x"] == "PENDING"
    assert (await plant.after())["waits:x"] == ["@time"]
    await harness.make_due(plant.ids["x"])
    await harness.promoter.tick()
    assert (await plant.states())["x"] == "READY"


async def test_one_that_no_parent_failed_for_does_not_run_when_its_time_comes(
    harness: Harness,
) -> None:
    plant = await heir(harness, "one_failed", delay=60_000)
    await run(plant, a="done", b="done")
    await ask(harness, "task/unblock", {"limit": 10, "tries": 10, "events": 9})
    await harness.make_due(plant.ids["x"])

    await promote(harness.queue._internals.shard)

    assert (await plant.states())["x"] == "PENDING"
    await harness.promoter.tick()
    assert await plant.facts() == ("completed", "0", "0", "1")


@pytest.mark.parametrize("trigger", ["all_done", "one_failed"])
async def test_a_parent_that_lives_again_before_it_is_told_of_tells_its_next_end(
    harness: Harness, trigger: str
) -> None:
    edges = {"a": [], "x": ["a"]}
    plant = await planted(harness, edges, more={"x": {"trigger": trigger}})
    await run(plant, a="dead")
    await harness.queue.dead.retry(plant.ids["a"])

    await harness.promoter.tick()

    assert (await plant.states())["x"] == "PENDING"
    assert "telling" not in await plant.after()
    await end(plant, "a", "done")
    assert (await plant.states())["x"] == ("READY" if trigger == "all_done" else "CANCELLED")


async def test_a_plain_child_of_a_dead_parent_waits_beside_its_heirs(harness: Harness) -> None:
    edges = {"a": [], "x": ["a"], "y": ["a"]}
    plant = await planted(harness, edges, more={"x": {"trigger": "all_done"}})

    await end(plant, "a", "dead")

    assert await plant.states() == {"a": "DEAD_LETTERED", "x": "READY", "y": "PENDING"}


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
async def test_a_parent_that_has_ended_before_counts_by_the_trigger(
    harness: Harness, trigger: str, how: str, state: str | None
) -> None:
    plant = await planted(harness, {"a": []})
    await end(plant, "a", how)
    parent = plant.ids["a"].ulid
    row = a_row(more={"trigger": trigger}, ask={"parents": [parent]})

    said = await submit(harness, [row])

    if state is None:
        assert said == ["OK", 0, 0, "PARENT", parent]
    else:
        found = (await plant.after())[f"task:{row.task}"]
        assert (said, found["state"]) == (["OK", 0], state)


async def test_a_task_enqueued_alone_may_wait_for_any_end(harness: Harness) -> None:
    parent = await submitted(harness)
    row = a_row(more={"trigger": "all_done"}, ask={"parents": [parent]})
    await submit(harness, [row])
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()

    await lease.fail(permanent=True)
    await settled(harness)

    states = [await harness.client.hget(harness.keys.task(row.task), "state")]
    assert states == [b"READY"]


async def alarmed(harness: Harness, how: str, *, far: str = "") -> tuple[Planted, Planted]:
    """A DAG with a task that waits for a failure of one within and one elsewhere, and the DAG of
    the latter, which has ended so before.
    """
    elsewhere = await planted(harness, {"e": [], "f": []})
    await end(elsewhere, "e", how)
    outside = {"x": [elsewhere.ids["e"].ulid, *([elsewhere.ids["f"].ulid] if far else [])]}
    more = {"x": {"trigger": "one_failed"}}
    return await planted(harness, {"a": [], "x": ["a"]}, more=more, outside=outside), elsewhere


async def test_a_parent_elsewhere_that_is_dead_already_is_the_first_failure(
    harness: Harness,
) -> None:
    plant, _ = await alarmed(harness, "dead")

    assert (await plant.states())["x"] == "READY"
    found = await plant.after()
    assert not {"waits:x", "blocked", "telling"} & set(found)
    assert "fired" not in found["task:x"]
    await end(plant, "a", "done")
    await run(plant, x="done")
    assert await plant.facts() == ("completed", "0", "0", "0")


@pytest.mark.parametrize("how", ["done", "cancelled"])
@pytest.mark.parametrize("then", ENDS)
async def test_one_elsewhere_that_ended_without_leaves_it_to_those_within(
    harness: Harness, how: str, then: str
) -> None:
    plant, _ = await alarmed(harness, how)
    assert (await plant.states())["x"] == "PENDING"

    await end(plant, "a", then)

    assert (await plant.states())["x"] == ("READY" if then == "dead" else "CANCELLED")


@pytest.mark.parametrize(("first", "then"), [*product(ENDS, ENDS)])
async def test_parents_within_and_elsewhere_count_alike(
    alone: Harness, first: str, then: str
) -> None:
    plant, elsewhere = await alarmed(alone, "done", far="f")

    await end(plant, "a", first)
    assert (await plant.states())["x"] == ("READY" if first == "dead" else "PENDING")
    await end(elsewhere, "f", then)

    assert (await plant.states())["x"] == ("READY" if "dead" in (first, then) else "CANCELLED")


async def test_a_failure_before_the_commit_is_kept_whatever_is_sent_again(harness: Harness) -> None:
    elsewhere = await planted(harness, {"e": []})
    outside = {"x": [elsewhere.ids["e"].ulid]}
    edges = {"a": [], "x": ["a"]}
    more = {"x": {"trigger": "one_failed"}}
    plant = await a_plant(harness, edges, more=more, outside=outside).written()
    await end(elsewhere, "e", "dead")
    before = await harness.dump()

    await plant.written()

    assert (await harness.dump()).keys() == before.keys()
    await plant.commit(limit=1)
    await end(plant, "a", "done")
    await plant.commit()
    await settled(harness)
    assert await plant.states() == {"a": "COMPLETED", "x": "READY"}


async def test_its_own_time_is_waited_for_after_a_failure_elsewhere(harness: Harness) -> None:
    elsewhere = await planted(harness, {"e": []})
    await end(elsewhere, "e", "dead")
    outside = {"x": [elsewhere.ids["e"].ulid]}
    more, asks = {"x": {"trigger": "one_failed"}}, {"x": {"delay": 60_000}}

    plant = await planted(harness, {"a": [], "x": ["a"]}, more=more, asks=asks, outside=outside)

    assert (await plant.after())["waits:x"] == ["@time"]
    assert (await plant.states())["x"] == "PENDING"
