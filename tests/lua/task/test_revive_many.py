"""revive with many dependencies: registered in steps; the task cannot run before the last."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.dead import store as dead_store
from rqueue.dead.store import Revival
from rqueue.errors import InvalidGraph
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, fan, run, running, settled
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.dag.test_wide import MOST_MS, typical
from tests.lua.task.keyspace import mailbox_lines, run_move, waiting_claim
from tests.lua.task.test_revive import TERMS

DEADLINE = 4_000_000_000_000


async def dead_end(
    harness: Harness, width: int = 7, trigger: str = "", **options: Any
) -> StoredDag:
    """A fan-in of which the last task died of its deadline while it waited."""
    kept: dict[str, Any] = {"deadline": DEADLINE, "on_deadline": "fail"}
    edges = {**fan(width, to_one=True), **options.pop("edges", {})}
    dag = await committed_dag(
        harness, edges, more={"end": kept | ({"trigger": trigger} if trigger else {})}, **options
    )
    await expire(dag)
    return dag


async def expire(dag: StoredDag) -> None:
    harness = dag.harness
    await harness.client.zadd(harness.keys.deadlines(), {dag.ids["end"].ulid: 1})
    await harness.promoter.tick()
    assert (await dag.states())["end"] == "DEAD_LETTERED"


async def revive(dag: StoredDag, **args: Argument) -> list[Any]:
    """The reply to one call, which registers three dependencies."""
    terms = TERMS | {"task": dag.ids["end"].ulid, "page": 3}
    return await run_move(dag.harness, "task/revive", terms | args)


async def go_on(dag: StoredDag) -> list[Any]:
    return await revive(dag, life="")


def waiting(found: dict[str, Any]) -> list[str]:
    return sorted(found.get("waits:end", []))


async def test_the_task_waits_from_the_first_call_on(harness: Harness) -> None:
    dag = await dead_end(harness)

    reply = await revive(dag)

    found = await dag.after()
    assert reply == ["OK", 2, "PENDING"]
    assert waiting(found) == ["@parents"]
    assert (await dag.steps(), found["blocked"]) == ({"revive": "0"}, ["end"])
    assert (await harness.task(dag.ids["end"])).blocked_by == ()
    await go_on(dag)
    assert (await harness.task(dag.ids["end"])).blocked_by == tuple(
        sorted(dag.ids[name] for name in "012")
    )


async def test_its_dependencies_are_registered_in_bounded_steps(harness: Harness) -> None:
    dag = await dead_end(harness)
    await revive(dag)

    reply = [await go_on(dag) for _ in range(3)]

    found = await dag.after()
    assert reply == [["OK", 2, "PENDING"], ["OK", 2, "PENDING"], ["OK", 0, "PENDING"]]
    assert (waiting(found), await dag.steps()) == ([*"0123456"], {})
    assert [key for key in found if key.startswith("dependents:")] == [
        f"dependents:{name}" for name in "0123456"
    ]
    assert "parents" not in found["task:end"]
    before = await harness.dump()
    assert await go_on(dag) == ["OK", 0, "PENDING"]
    assert await harness.dump() == before


async def test_a_repeated_first_call_gets_the_same_reply_at_any_step(harness: Harness) -> None:
    dag = await dead_end(harness)
    first = await revive(dag, request="r1")
    await go_on(dag)
    before = await harness.dump()

    assert await revive(dag, request="r1") == first == ["OK", 2, "PENDING"]
    assert await revive(dag, request="r2") == ["DECIDED", "PENDING"]
    assert await harness.dump() == before


async def test_a_caller_continues_until_all_are_registered(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = await dead_end(harness)
    monkeypatch.setattr(dead_store, "DEPENDENCY_LIMIT", 3)

    (state,) = await dead_store.revive_all(
        harness.queue._internals.shard, [Revival(dag.ids["end"].ulid, 1)]
    )

    assert state is State.PENDING
    assert (waiting(await dag.after()), await dag.steps()) == ([*"0123456"], {})


async def test_the_task_runs_when_all_have_ended_and_not_before_all_are_registered(
    harness: Harness,
) -> None:
    dag = await dead_end(harness)
    waiter = await waiting_claim(harness, n=1, type="other")
    await revive(dag)
    await go_on(dag)

    await run(dag, **dict.fromkeys("0123456", "done"))

    assert (await dag.states())["end"] == "PENDING"
    assert await harness.queue.claim(worker="w1") == []
    assert [await go_on(dag) for _ in range(2)] == [["OK", 2, "PENDING"], ["OK", 0, "READY"]]
    assert await mailbox_lines(harness, waiter) == []
    assert [lease.id for lease in await running(harness)] == [dag.ids["end"]]
    assert (await dag.after()).get("waits:end") is None


async def test_a_cycle_through_a_dependency_that_is_not_registered_yet_is_found(
    harness: Harness,
) -> None:
    dag = await dead_end(harness)
    await revive(dag)
    (lease,) = [one for one in await running(harness, 7) if one.id == dag.ids["5"]]
    after = row("after", outside=[dag.ids["end"].ulid])

    assert await spawn(harness, lease, [after], wait="success", max_nodes=20) == ["CYCLE", "after"]


@pytest.mark.parametrize("done_steps", [0, 1, 2])
async def test_the_services_continue_after_a_caller_died(harness: Harness, done_steps: int) -> None:
    dag = await dead_end(harness)
    await revive(dag)
    for _ in range(done_steps):
        await go_on(dag)

    await settled(harness)

    found = await dag.after()
    assert (waiting(found), await dag.steps()) == ([*"0123456"], {})
    await run(dag, **dict.fromkeys([*"0123456", "end"], "done"))
    assert (await dag.facts())[0] == "completed"


async def test_a_dependency_that_is_cancelled_meanwhile_cancels_it(harness: Harness) -> None:
    dag = await dead_end(harness)
    await revive(dag)
    await harness.queue.cancel(dag.ids["4"])

    await settled(harness)

    assert (await dag.states())["end"] == "CANCELLED"
    why = (await harness.task(dag.ids["end"])).cancel_reason
    assert why == f"Parent {dag.ids['4']} cancelled"
    assert await dag.steps() == {}


@pytest.mark.parametrize("end", ["cancelled", "dead"])
async def test_a_task_that_ends_during_the_registration_stays_ended(
    harness: Harness, end: str
) -> None:
    dag = await dead_end(harness)
    await revive(dag)
    await go_on(dag)

    if end == "cancelled":
        await harness.queue.cancel(dag.ids["end"])
    else:
        await expire(dag)

    assert (await go_on(dag))[:2] == ["OK", 0]
    assert await dag.steps() == {}
    if end == "dead":
        assert await harness.queue.dead.retry(dag.ids["end"]) is State.PENDING
        assert waiting(await dag.after()) == [*"0123456"]


@pytest.mark.parametrize(
    ("ends", "state"), [("dead", "READY"), ("done", "CANCELLED"), ("", "PENDING")]
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_one_failed_task_is_resolved_by_a_failure(
    harness: Harness, ends: str, state: str, when: str
) -> None:
    dag = await dead_end(harness, trigger="one_failed")
    names = "0123456" if ends == "done" else "5" if ends else ""
    if when == "before":
        await revive(dag)
        await run(dag, **dict.fromkeys(names, ends))
    life = 1 if when == "after" else None
    await dead_store.revive(harness.queue._internals.shard, Revival(dag.ids["end"].ulid, life))
    if when == "after":
        await run(dag, **dict.fromkeys(names, ends))
    await settled(harness)

    assert (await dag.states())["end"] == state
    assert await dag.steps() == {}


async def test_any_end_counts_for_an_all_done_task(harness: Harness) -> None:
    dag = await dead_end(harness, trigger="all_done")
    await revive(dag)
    await run(dag, **{"0": "dead", "5": "dead"})

    await settled(harness)

    assert waiting(await dag.after()) == [*"12346"]


async def test_a_sweep_changes_nothing_and_the_registration_continues(harness: Harness) -> None:
    dag = await dead_end(harness)
    await revive(dag)
    before = await harness.dump()
    rows = [(dag.ids["end"].ulid,)]

    assert await run_move(harness, "repair/mend", {"parents": 10}, rows) == ["OK", 0]
    assert await harness.dump() == before
    await harness.client.delete(harness.keys.unfinished())
    assert await run_move(harness, "repair/mend", {"parents": 10}, rows) == ["OK", 1]
    await settled(harness)
    assert waiting(await dag.after()) == [*"0123456"]


async def test_too_many_edges_are_not_reported_as_a_cycle(harness: Harness) -> None:
    dag = await dead_end(harness, edges={"after": ["end"]})
    before = await harness.dump()
    end = dag.ids["end"]

    assert await revive(dag, steps=6) == ["FAR", end.ulid]
    assert await revive(dag, steps=6, page=100) == ["FAR", end.ulid]
    assert await harness.dump() == before
    assert await revive(dag, steps=7) == ["OK", 2, "PENDING"]


async def test_the_error_for_too_many_edges_has_a_hint(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = await dead_end(harness, edges={"after": ["end"]})
    monkeypatch.setattr(dead_store, "EDGE_LIMIT", 6)

    with pytest.raises(
        InvalidGraph, match=r"when more of them have ended, or discard it"
    ) as raised:
        await harness.queue.dead.retry(dag.ids["end"])

    assert raised.value.path == (dag.ids["end"],)


@pytest.mark.timeout(120)
async def test_a_revival_with_thousands_of_dependencies_does_not_block_the_server_for_long(
    alone: Harness,
) -> None:
    dag = await dead_end(alone, 9_990)
    end = dag.ids["end"]

    longest = await typical(alone, alone.queue.dead.retry(end))

    assert longest < MOST_MS
    assert await alone.client.scard(alone.keys.waits(end.ulid)) == 9_990
    assert await dag.steps() == {}
