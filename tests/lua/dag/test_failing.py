"""Failing: what the death of a task means for its DAG, by the rule of its producer."""

from __future__ import annotations

from itertools import product

import pytest

from rqueue import State
from rqueue.errors import DagEnded
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS, ending
from tests.harness import Harness
from tests.lua.dag.planted import a_plant, fan, planted, run, running, settled
from tests.lua.task.keys_after import ask

FORK = {"a": [], "b": ["a"], "c": ["b"], "z": []}


def events(found: dict[str, object], prefix: str = "dag.") -> list[tuple[str, str]]:
    """The events of a kind, with their details."""
    listed = found.get("events", [])
    assert isinstance(listed, list)
    return [(one["event"], one["detail"]) for one in listed if one["event"].startswith(prefix)]


async def test_hold_lets_the_others_wait_and_run(harness: Harness) -> None:
    plant = await planted(harness, FORK)

    await run(plant, a="dead")
    await settled(harness)

    assert await plant.states() == {
        "a": "DEAD_LETTERED", "b": "PENDING", "c": "PENDING", "z": "READY",
    }  # fmt: skip
    assert await plant.facts() == ("failed", "3", "1", "0")
    found = await plant.after()
    assert events(found) == [("dag.failed", "1")]
    assert (found["task:b"]["sole"], found["task:a"]["down"]) == ("1", "b")


async def test_reviving_the_dead_goes_on(harness: Harness) -> None:
    plant = await planted(harness, FORK)
    await run(plant, a="dead")

    await harness.queue.dead.retry(plant.ids["a"])

    assert await plant.facts() == ("running", "4", "0", "0")
    await run(plant, a="done", b="done", c="done", z="done")
    assert await plant.facts() == ("completed", "0", "0", "0")


async def test_continue_gives_up_what_depends_on_the_dead(harness: Harness) -> None:
    plant = await planted(harness, FORK, on_failure="continue")

    await run(plant, a="dead")
    await settled(harness)

    assert await plant.facts() == ("failed", "1", "1", "2")
    task = await harness.queue.get(plant.ids["b"])
    assert task.cancel_reason == f"Parent {plant.ids['a']} dead-lettered"
    await run(plant, z="done")
    assert await plant.facts() == ("failed", "0", "1", "2")
    assert await plant.field("finished") is None


async def test_continue_spares_what_depends_on_one_that_lives_again(harness: Harness) -> None:
    plant = await planted(harness, FORK, on_failure="continue")
    await run(plant, a="dead")

    await harness.queue.dead.retry(plant.ids["a"])

    assert "cancelling" not in await plant.after()
    await settled(harness)
    assert await plant.facts() == ("running", "4", "0", "0")
    await run(plant, a="done", b="done", c="done", z="done")
    assert await plant.facts() == ("completed", "0", "0", "0")


async def test_what_a_cascade_has_not_reached_is_spared(harness: Harness) -> None:
    plant = await planted(harness, fan(9), on_failure="continue")
    await run(plant, a="dead")
    terms = harness.queue._internals.shard.terms
    args: dict[str, Argument] = {
        "reason": "", "dependents": "cascade", "limit": 3, "how": ending(terms), **ANSWER_LIMITS,
        "request": "r",
    }  # fmt: skip
    assert await ask(harness, "task/cancel", args) == ["OK", 2, 3]

    await harness.queue.dead.retry(plant.ids["a"])
    await settled(harness)

    assert await plant.counted() == {"READY": 1, "CANCELLED": 3, "PENDING": 6}
    await run(plant, a="done")
    assert await plant.counted() == {"COMPLETED": 1, "CANCELLED": 3, "READY": 6}


async def test_a_cascade_looks_whether_the_parent_is_still_dead(harness: Harness) -> None:
    plant = await planted(harness, FORK, on_failure="continue")
    step = {f"children {plant.ids['a'].ulid}": "cascade dead-lettered"}
    await harness.client.hset(harness.keys.cancelling(), mapping=step)

    await harness.promoter.tick()

    assert (await plant.states())["b"] == "PENDING"
    assert "cancelling" not in await plant.after()


async def test_fail_fast_hands_out_nothing_more_at_once_and_gives_up_the_rest(
    harness: Harness,
) -> None:
    plant = await planted(harness, FORK, on_failure="fail_fast")

    await run(plant, a="dead")

    assert await plant.field("closing") == "failed"
    assert await plant.steps() == {"cancel": "0"}
    assert await harness.queue.claim(worker="w1", n=9) == []
    await settled(harness)
    assert await plant.facts() == ("failed", "0", "1", "3")
    reasons = {(await harness.queue.get(plant.ids[name])).cancel_reason for name in "bcz"}
    assert "a task of the DAG failed for good" in reasons
    assert "held:D" not in await plant.after()


@pytest.mark.parametrize("first", ["discard", "cancel"])
async def test_a_failure_is_told_of_once(harness: Harness, first: str) -> None:
    plant = await planted(harness, FORK, on_failure="fail_fast")
    await run(plant, a="dead")
    if first == "cancel":
        await settled(harness)

    await harness.queue.dead.discard(plant.ids["a"])
    await settled(harness)

    assert await plant.facts() == ("failed", "0", "0", "4")
    assert await plant.field("finished") is not None
    assert events(await plant.after()) == [("dag.failed", "1")]


async def test_each_passage_into_failed_is_told_of(harness: Harness) -> None:
    plant = await planted(harness, {"a": []}, on_failure="fail_fast")
    await run(plant, a="dead")
    await settled(harness)
    await harness.queue.dead.retry(plant.ids["a"])

    await run(plant, a="dead")
    await settled(harness)
    await harness.queue.dead.discard(plant.ids["a"])

    assert events(await plant.after()) == [("dag.failed", "1")] * 2


async def test_one_that_is_being_given_up_cannot_go_on(harness: Harness) -> None:
    plant = await planted(harness, FORK, on_failure="fail_fast")
    await run(plant, a="dead")
    args: dict[str, Argument] = {
        "task": plant.ids["a"].ulid, "life": 1, "def": "", "delay": 0, "tries": 9, "steps": 9,
        "page": 9, "terms": '{"events":9,"reviews":0}', "review": "",
    }  # fmt: skip
    before = await harness.dump()

    assert await ask(harness, "task/revive", args) == ["CLOSING", plant.dag]

    assert await harness.dump() == before
    with pytest.raises(DagEnded):
        await harness.queue.dead.retry(plant.ids["a"])


async def test_given_up_it_goes_on_with_the_one_that_is_revived(harness: Harness) -> None:
    plant = await planted(harness, FORK, on_failure="fail_fast")
    await run(plant, a="dead")
    await settled(harness)

    await harness.queue.dead.retry(plant.ids["a"])

    assert await plant.facts() == ("running", "1", "0", "3")
    assert (await plant.field("closing"), await plant.field("why")) == (None, None)
    await run(plant, a="dead")
    assert await plant.field("closing") == "failed"
    await settled(harness)
    await harness.queue.dead.retry(plant.ids["a"])
    await run(plant, a="done")
    assert await plant.facts() == ("completed", "0", "0", "3")


async def test_discarding_the_last_dead_ends_it(harness: Harness) -> None:
    plant = await planted(harness, FORK)
    await run(plant, a="dead", z="done")

    await harness.queue.dead.discard(plant.ids["a"])
    await harness.promoter.tick()

    assert await plant.facts() == ("completed", "0", "0", "3")
    assert await plant.field("finished") is not None
    assert events(await plant.after()) == [("dag.failed", "1"), ("dag.completed", "4")]


@pytest.mark.parametrize(("threshold", "at"), [("2.0", 2), ("0.5", 2), ("0.26", 2), ("1.0", 1)])
async def test_many_deaths_are_told_of_once(harness: Harness, threshold: str, at: int) -> None:
    plant = await planted(harness, {name: [] for name in "abcd"}, threshold=threshold)

    for number, name in enumerate("abcd", 1):
        await run(plant, **{name: "dead"})
        assert (await plant.field("escalated") is not None) is (number >= at)
    await harness.queue.dead.retry(plant.ids["a"])
    await run(plant, a="dead")

    assert await plant.field("escalated") == str(at)
    found = [one for one in events(await plant.after()) if one[0] == "dag.escalated"]
    assert found == [("dag.escalated", str(at))]


async def test_a_failure_is_told_to_who_waits(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    args: dict[str, Argument] = {"box": "x", "keep_ms": 60_000}
    await ask(harness, "task/watch", args, [(f"dag_{plant.dag}",)])

    await run(plant, a="dead", b="dead")

    assert (await plant.after())["mail:x"] == ["ended dag_D"]
    assert await ask(harness, "task/watch", args, [(f"dag_{plant.dag}",)]) == ["OK", "failed"]


async def test_the_death_of_a_lost_lease_counts_too(harness: Harness) -> None:
    plant = await planted(harness, FORK)
    args: dict[str, Argument] = {
        "idle_ms": 0, "archive": 0, "keep": 9, "events": 9, "tries": 9, "max_lanes": 9,
    }  # fmt: skip
    (lease,) = [one for one in await running(harness, 2) if one.id == plant.ids["a"]]

    row = (lease.id.ulid, lease.token, "", 1, 1, "lost", "", "code", "", "", "", "")
    assert await ask(harness, "task/reap", args, [row]) == ["OK", 0, "DEAD_LETTERED"]

    assert await plant.facts() == ("failed", "3", "1", "0")


@pytest.mark.parametrize(
    ("rule", "facts"),
    [("cancel", ("pending", "2", "0", "1")), ("fail", ("failed", "2", "1", "0"))],
)
async def test_a_deadline_that_passes_counts_too(
    harness: Harness, rule: str, facts: tuple[str, ...]
) -> None:
    more = {"a": {"deadline": 1, "on_deadline": rule}}
    plant = await planted(harness, {"a": [], "b": ["a"], "c": []}, more=more)
    how = '{"archive":"0","ttl":9,"events":9}'

    said = await ask(harness, "task/expire", {"limit": 9, "how": how, "again_ms": 9})

    assert said == ["OK", 0, 1]
    assert await plant.facts() == facts


async def test_a_deadline_does_not_pass_for_what_nobody_sees(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    more = {"x": {"deadline": 1, "on_deadline": "fail"}}
    hidden = await a_plant(harness, {"x": []}, more=more).written()
    how = '{"archive":"0","ttl":9,"events":9}'

    said = await ask(harness, "task/expire", {"limit": 9, "how": how, "again_ms": 60_000})

    assert said == ["OK", 0, 0]
    assert await hidden.states() == {"x": "CREATED"}
    assert (await hidden.after())["deadlines"] == ["x"]
    assert await plant.states() == {"a": "READY"}


WAYS = ("done", "cancelled", "revived", "discarded")


@pytest.mark.parametrize("ways", [*product(WAYS, WAYS, WAYS)], ids=" ".join)
async def test_it_ends_whatever_the_order(alone: Harness, ways: tuple[str, ...]) -> None:
    plant = await planted(alone, {name: [] for name in "abc"})
    ends = dict(zip("abc", ways, strict=True))
    for name in [one for one, way in ends.items() if way in ("revived", "discarded")]:
        await run(plant, **{name: "dead"})
        assert (await plant.facts())[0] == "failed"

    for name, way in ends.items():
        assert await plant.field("finished") is None
        match way:
            case "done":
                await run(plant, **{name: "done"})
            case "cancelled":
                await alone.queue.cancel(plant.ids[name])
            case "discarded":
                await alone.queue.dead.discard(plant.ids[name])
            case _:
                await alone.queue.dead.retry(plant.ids[name])
                await run(plant, **{name: "done"})

    given_up = sum(way in ("cancelled", "discarded") for way in ways)
    status = "cancelled" if given_up == 3 else "completed"
    assert await plant.facts() == (status, "0", "0", str(given_up))
    assert await plant.field("finished") is not None
    assert events(await plant.after())[-1] == (f"dag.{status}", "3")


async def test_a_long_cascade_names_each_parent(alone: Harness) -> None:
    edges = {"0": [], **{str(at): [str(at - 1)] for at in range(1, 1001)}}
    plant = await planted(alone, edges)

    await alone.queue.cancel(plant.ids["0"])

    assert await plant.facts() == ("cancelled", "0", "0", "1001")
    last = await alone.queue.get(plant.ids["1000"])
    assert last.cancel_reason == f"Parent {plant.ids['999']} cancelled"


async def test_by_choice_those_who_wait_for_a_cancelled_one_go_on(harness: Harness) -> None:
    plant = await planted(harness, fan(3))

    await harness.queue.cancel(plant.ids["a"], dependents="unblock")

    assert await plant.counted() == {"CANCELLED": 1, "READY": 3}
    assert (await harness.queue.counts())[State.READY] == 3
    await run(plant, **{str(at): "done" for at in range(3)})
    assert await plant.facts() == ("completed", "0", "0", "1")


async def test_one_that_lives_again_completes_where_its_one_dependent_was_given_up(
    harness: Harness,
) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"], "c": []}, on_failure="continue")
    await run(plant, a="dead")
    await settled(harness)
    await harness.queue.dead.retry(plant.ids["a"])

    await run(plant, a="done", c="done")

    assert await plant.states() == {"a": "COMPLETED", "b": "CANCELLED", "c": "COMPLETED"}
    assert await plant.facts() == ("completed", "0", "0", "1")
