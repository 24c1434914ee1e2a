"""Running: what claims, turns and notes mean for the DAG of the tasks that they are about."""

from __future__ import annotations

import pytest

from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import HeldLease, Settled
from rqueue.core.notes import note
from rqueue.dags import submit as dag_submit
from rqueue.task.lane import Lane, Offer
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, a_plant, planted, running
from tests.lua.rows import a_row, claim, submit

LOST = Lane("code", 0.0, exclusive=True)


async def test_the_first_claim_makes_it_run(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await plant.after()

    (lease,) = await harness.queue.claim(worker="w1")

    found = await plant.after()
    assert lease.id == plant.ids["a"]
    assert found["dag:D"] == before["dag:D"] | {"status": "running"}


async def test_a_claim_that_is_held_back_does_not(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    await plant.pause(limit=1)

    assert await harness.queue.claim(worker="w1") == []

    assert await plant.field("status") == "pending"


async def test_a_lost_task_that_is_held_back_keeps_no_hands_free(harness: Harness) -> None:
    plant = a_plant(harness, {"a": []})
    (node,) = plant.planting.nodes
    node = node._replace(draft=node.draft._replace(lane=LOST, base=1))
    await dag_submit.submit(harness.queue._internals.shard, plant.planting._replace(nodes=[node]))
    await harness.client.hset(harness.keys.dag(plant.dag), "paused", 1)
    other = a_row(lane=2)
    await submit(harness, [other], lanes=(LOST, Lane("code", 0.0)))

    reply = await claim(harness, 1)

    assert [row.task for row in reply[3:]] == [other.task]
    assert not await harness.client.exists(harness.keys.worker("w1"))


async def test_a_turn_ends_tasks_and_hands_out_what_they_free(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"]})
    waiter = WaitingClaim(
        harness.queue._internals.shard, "w1", Offer.of(None), name="w1", lasts=True
    )
    (first,) = (await waiter.exchange([], 1)).answer.grants

    turned = await waiter.exchange([Settled(first.task, first.token, b"")], 1)

    (second,) = turned.answer.grants
    assert (first.task, second.task) == (plant.ids["a"].ulid, plant.ids["b"].ulid)
    assert await plant.facts() == ("running", "1", "0", "0")
    await waiter.exchange([Settled(second.task, second.token, b"")], 1)
    assert await plant.facts() == ("completed", "0", "0", "0")


async def test_all_that_a_call_completes_is_counted_at_once(harness: Harness) -> None:
    plant = await planted(harness, {name: [] for name in "abc"})
    leases = await running(harness, 3)
    rows = [(lease.id.ulid, lease.token, "") for lease in leases]
    args = {"archive": 0, "ttl": 60_000, "limit": 9, "tries": 9, "events": 9}

    for _ in range(2):
        reply = await harness.queue._internals.shard.run("task/complete", args, rows)
        assert reply[2:] == [b"OK"] * 3

    assert await plant.facts() == ("completed", "0", "0", "0")
    events = [one["event"] for one in (await plant.after())["events"]]
    assert events == ["dag.completed"]


async def test_what_tasks_spend_is_added_up(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    for lease in await running(harness, 2):
        for _ in range(2):
            await note(harness.queue._internals.shard, lease.held, Note(usd=0.25), seq=1)

    assert await plant.field("spent") == "500000"


async def test_a_note_without_a_cost_leaves_the_dag_alone(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    (lease,) = await running(harness)

    await note(
        harness.queue._internals.shard,
        HeldLease(lease.id.ulid, lease.token),
        Note(line="half"),
        seq=1,
    )

    assert await plant.field("spent") is None


@pytest.mark.parametrize("move", ["park", "release", "validate", "fail"])
async def test_moves_that_end_nothing_change_no_counter(harness: Harness, move: str) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    (lease,) = await running(harness)

    await (lease.park(60) if move == "park" else getattr(lease, move)())

    assert await plant.facts() == ("running", "2", "0", "0")
    await plant.cancel("no need")
    assert await plant.facts() == ("cancelled", "0", "0", "2")
