"""The effect of claims, exchanges and notes on the DAG of their tasks."""

from __future__ import annotations

import pytest

from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import HeldLease, Settled
from rqueue.core.notes import note
from rqueue.dags import submit as dag_submit
from rqueue.task.lane import Lane, Offer
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, committed_dag, running, unsent_dag
from tests.lua.rows import a_row, claim, submit

LOST = Lane("code", 0.0, exclusive=True)


async def test_the_first_claim_sets_the_dag_to_running(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await dag.after()

    (lease,) = await harness.queue.claim(worker="w1")

    found = await dag.after()
    assert lease.id == dag.ids["a"]
    assert found["dag:D"] == before["dag:D"] | {"status": "running"}


async def test_a_claim_of_a_held_task_does_not_set_the_dag_to_running(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    await dag.pause(limit=1)

    assert await harness.queue.claim(worker="w1") == []

    assert await dag.field("status") == "pending"


async def test_a_held_exclusive_task_does_not_drain_a_worker(harness: Harness) -> None:
    dag = unsent_dag(harness, {"a": []})
    (node,) = dag.draft.nodes
    node = node._replace(draft=node.draft._replace(lane=LOST, base=1))
    await dag_submit.submit(harness.queue._internals.shard, dag.draft._replace(nodes=[node]))
    await harness.client.hset(harness.keys.dag(dag.ulid), "paused", 1)
    other = a_row(lane=2)
    await submit(harness, [other], lanes=(LOST, Lane("code", 0.0)))

    reply = await claim(harness, 1)

    assert [row.task for row in reply[3:]] == [other.task]
    assert not await harness.client.exists(harness.keys.worker("w1"))


async def test_an_exchange_completes_tasks_and_claims_their_dependents(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"]})
    waiter = WaitingClaim(
        harness.queue._internals.shard, "w1", Offer.of(None), name="w1", lasts=True
    )
    (first,) = (await waiter.exchange([], 1)).answer.grants

    turned = await waiter.exchange([Settled(first.task, first.token, b"")], 1)

    (second,) = turned.answer.grants
    assert (first.task, second.task) == (dag.ids["a"].ulid, dag.ids["b"].ulid)
    assert await dag.facts() == ("running", "1", "0", "0")
    await waiter.exchange([Settled(second.task, second.token, b"")], 1)
    assert await dag.facts() == ("completed", "0", "0", "0")


async def test_completions_of_one_call_are_counted_at_once(harness: Harness) -> None:
    dag = await committed_dag(harness, {name: [] for name in "abc"})
    leases = await running(harness, 3)
    rows = [(lease.id.ulid, lease.token, "") for lease in leases]
    args = {"archive": 0, "ttl": 60_000, "limit": 9, "tries": 9, "events": 9}

    for _ in range(2):
        reply = await harness.queue._internals.shard.run("task/complete", args, rows)
        assert reply[2:] == [b"OK"] * 3

    assert await dag.facts() == ("completed", "0", "0", "0")
    events = [one["event"] for one in (await dag.after())["events"]]
    assert events == ["dag.completed"]


async def test_costs_of_tasks_are_added_up(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    for lease in await running(harness, 2):
        for _ in range(2):
            await note(harness.queue._internals.shard, lease.held, Note(usd=0.25), seq=1)

    assert await dag.field("spent") == "500000"


async def test_a_note_without_a_cost_does_not_change_the_dag(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    (lease,) = await running(harness)

    await note(
        harness.queue._internals.shard,
        HeldLease(lease.id.ulid, lease.token),
        Note(line="half"),
        seq=1,
    )

    assert await dag.field("spent") is None


@pytest.mark.parametrize("move", ["park", "release", "validate", "fail"])
async def test_moves_that_end_no_task_change_no_counter(harness: Harness, move: str) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    (lease,) = await running(harness)

    await (lease.park(60) if move == "park" else getattr(lease, move)())

    assert await dag.facts() == ("running", "2", "0", "0")
    await dag.cancel("no need")
    assert await dag.facts() == ("cancelled", "0", "0", "2")
