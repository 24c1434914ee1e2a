"""revive of one that waits for many: they are told in steps, and it cannot run before the last."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.dead import store as dead_store
from rqueue.dead.store import Revival
from rqueue.errors import InvalidGraph
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.planted import Planted, fan, planted, run, running, settled
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.dag.test_wide import MOST_MS, typical
from tests.lua.task.keys_after import ask, mail, parked
from tests.lua.task.test_revive import TERMS

DEADLINE = 4_000_000_000_000


async def dead_end(harness: Harness, width: int = 7, trigger: str = "", **options: Any) -> Planted:
    """A fan-in of which the last task died of its deadline while it waited."""
    kept: dict[str, Any] = {"deadline": DEADLINE, "on_deadline": "fail"}
    edges = {**fan(width, to_one=True), **options.pop("edges", {})}
    plant = await planted(
        harness, edges, more={"end": kept | ({"trigger": trigger} if trigger else {})}, **options
    )
    await expire(plant)
    return plant


async def expire(plant: Planted) -> None:
    harness = plant.harness
    await harness.client.zadd(harness.keys.deadlines(), {plant.ids["end"].ulid: 1})
    await harness.promoter.tick()
    assert (await plant.states())["end"] == "DEAD_LETTERED"


async def revive(plant: Planted, **args: Argument) -> list[Any]:
    """The reply to one call, which tells three parents."""
    terms = TERMS | {"task": plant.ids["end"].ulid, "page": 3}
    return await ask(plant.harness, "task/revive", terms | args)


async def go_on(plant: Planted) -> list[Any]:
    return await revive(plant, life="")


def waiting(found: dict[str, Any]) -> list[str]:
    return sorted(found.get("waits:end", []))


async def test_it_waits_from_the_first_call_on(harness: Harness) -> None:
    plant = await dead_end(harness)

    said = await revive(plant)

    found = await plant.after()
    assert said == ["OK", 2, "PENDING"]
    assert waiting(found) == ["@parents"]
    assert (await plant.steps(), found["blocked"]) == ({"revive": "0"}, ["end"])
    assert (await harness.task(plant.ids["end"])).blocked_by == ()
    await go_on(plant)
    assert (await harness.task(plant.ids["end"])).blocked_by == tuple(
        sorted(plant.ids[name] for name in "012")
    )


async def test_its_parents_are_told_in_bounded_steps(harness: Harness) -> None:
    plant = await dead_end(harness)
    await revive(plant)

    said = [await go_on(plant) for _ in range(3)]

    found = await plant.after()
    assert said == [["OK", 2, "PENDING"], ["OK", 2, "PENDING"], ["OK", 0, "PENDING"]]
    assert (waiting(found), await plant.steps()) == ([*"0123456"], {})
    assert [key for key in found if key.startswith("dependents:")] == [
        f"dependents:{name}" for name in "0123456"
    ]
    assert "parents" not in found["task:end"]
    before = await harness.dump()
    assert await go_on(plant) == ["OK", 0, "PENDING"]
    assert await harness.dump() == before


async def test_what_begins_is_answered_as_before_however_far_the_rest_is(harness: Harness) -> None:
    plant = await dead_end(harness)
    first = await revive(plant, request="r1")
    await go_on(plant)
    before = await harness.dump()

    assert await revive(plant, request="r1") == first == ["OK", 2, "PENDING"]
    assert await revive(plant, request="r2") == ["DECIDED", "PENDING"]
    assert await harness.dump() == before


async def test_a_caller_goes_on_until_all_are_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = await dead_end(harness)
    monkeypatch.setattr(dead_store, "DEPENDENCY_LIMIT", 3)

    (state,) = await dead_store.revive_all(
        harness.queue._internals.shard, [Revival(plant.ids["end"].ulid, 1)]
    )

    assert state is State.PENDING
    assert (waiting(await plant.after()), await plant.steps()) == ([*"0123456"], {})


async def test_it_runs_when_all_have_ended_and_not_before_all_know(harness: Harness) -> None:
    plant = await dead_end(harness)
    waiter = await parked(harness, n=1, type="other")
    await revive(plant)
    await go_on(plant)

    await run(plant, **dict.fromkeys("0123456", "done"))

    assert (await plant.states())["end"] == "PENDING"
    assert await harness.queue.claim(worker="w1") == []
    assert [await go_on(plant) for _ in range(2)] == [["OK", 2, "PENDING"], ["OK", 0, "READY"]]
    assert await mail(harness, waiter) == []
    assert [lease.id for lease in await running(harness)] == [plant.ids["end"]]
    assert (await plant.after()).get("waits:end") is None


async def test_a_circle_through_a_parent_that_does_not_know_of_it_yet_is_found(
    harness: Harness,
) -> None:
    plant = await dead_end(harness)
    await revive(plant)
    (lease,) = [one for one in await running(harness, 7) if one.id == plant.ids["5"]]
    after = row("after", outside=[plant.ids["end"].ulid])

    assert await spawn(harness, lease, [after], wait="success", max_nodes=20) == ["CYCLE", "after"]


@pytest.mark.parametrize("told", [0, 1, 2])
async def test_the_services_go_on_where_a_caller_died(harness: Harness, told: int) -> None:
    plant = await dead_end(harness)
    await revive(plant)
    for _ in range(told):
        await go_on(plant)

    await settled(harness)

    found = await plant.after()
    assert (waiting(found), await plant.steps()) == ([*"0123456"], {})
    await run(plant, **dict.fromkeys([*"0123456", "end"], "done"))
    assert (await plant.facts())[0] == "completed"


async def test_one_whose_parent_is_cancelled_meanwhile_is_given_up(harness: Harness) -> None:
    plant = await dead_end(harness)
    await revive(plant)
    await harness.queue.cancel(plant.ids["4"])

    await settled(harness)

    assert (await plant.states())["end"] == "CANCELLED"
    why = (await harness.task(plant.ids["end"])).cancel_reason
    assert why == f"Parent {plant.ids['4']} cancelled"
    assert await plant.steps() == {}


@pytest.mark.parametrize("end", ["cancelled", "dead"])
async def test_one_that_ends_while_its_parents_are_told_stays_so(
    harness: Harness, end: str
) -> None:
    plant = await dead_end(harness)
    await revive(plant)
    await go_on(plant)

    if end == "cancelled":
        await harness.queue.cancel(plant.ids["end"])
    else:
        await expire(plant)

    assert (await go_on(plant))[:2] == ["OK", 0]
    assert await plant.steps() == {}
    if end == "dead":
        assert await harness.queue.dead.retry(plant.ids["end"]) is State.PENDING
        assert waiting(await plant.after()) == [*"0123456"]


@pytest.mark.parametrize(
    ("ends", "state"), [("dead", "READY"), ("done", "CANCELLED"), ("", "PENDING")]
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_one_that_waits_for_a_failure_is_told_of_it(
    harness: Harness, ends: str, state: str, when: str
) -> None:
    plant = await dead_end(harness, trigger="one_failed")
    names = "0123456" if ends == "done" else "5" if ends else ""
    if when == "before":
        await revive(plant)
        await run(plant, **dict.fromkeys(names, ends))
    life = 1 if when == "after" else None
    await dead_store.revive(harness.queue._internals.shard, Revival(plant.ids["end"].ulid, life))
    if when == "after":
        await run(plant, **dict.fromkeys(names, ends))
    await settled(harness)

    assert (await plant.states())["end"] == state
    assert await plant.steps() == {}


async def test_any_end_counts_for_one_that_waits_for_ends(harness: Harness) -> None:
    plant = await dead_end(harness, trigger="all_done")
    await revive(plant)
    await run(plant, **{"0": "dead", "5": "dead"})

    await settled(harness)

    assert waiting(await plant.after()) == [*"12346"]


async def test_a_sweep_changes_nothing_but_lets_it_go_on(harness: Harness) -> None:
    plant = await dead_end(harness)
    await revive(plant)
    before = await harness.dump()
    rows = [(plant.ids["end"].ulid,)]

    assert await ask(harness, "repair/mend", {"parents": 10}, rows) == ["OK", 0]
    assert await harness.dump() == before
    await harness.client.delete(harness.keys.unfinished())
    assert await ask(harness, "repair/mend", {"parents": 10}, rows) == ["OK", 1]
    await settled(harness)
    assert waiting(await plant.after()) == [*"0123456"]


async def test_too_many_edges_are_no_circle(harness: Harness) -> None:
    plant = await dead_end(harness, edges={"after": ["end"]})
    before = await harness.dump()
    end = plant.ids["end"]

    assert await revive(plant, steps=6) == ["FAR", end.ulid]
    assert await revive(plant, steps=6, page=100) == ["FAR", end.ulid]
    assert await harness.dump() == before
    assert await revive(plant, steps=7) == ["OK", 2, "PENDING"]


async def test_the_caller_is_told_what_to_do_where_there_are_too_many_edges(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = await dead_end(harness, edges={"after": ["end"]})
    monkeypatch.setattr(dead_store, "EDGE_LIMIT", 6)

    with pytest.raises(
        InvalidGraph, match=r"when more of them have ended, or discard it"
    ) as raised:
        await harness.queue.dead.retry(plant.ids["end"])

    assert raised.value.path == (plant.ids["end"],)


@pytest.mark.timeout(120)
async def test_a_revival_of_one_that_waits_for_thousands_takes_the_server_not_long(
    alone: Harness,
) -> None:
    plant = await dead_end(alone, 9_990)
    end = plant.ids["end"]

    longest = await typical(alone, alone.queue.dead.retry(end))

    assert longest < MOST_MS
    assert await alone.client.scard(alone.keys.waits(end.ulid)) == 9_990
    assert await plant.steps() == {}
