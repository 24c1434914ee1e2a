"""turn: what is claimed ahead of a free slot is held, and not begun until it is."""

from __future__ import annotations

import pytest

from rqueue import State
from rqueue.policy.capability import Offer
from rqueue.store.claims import Waiter
from rqueue.store.leases import Held, Settled, start
from tests.house import House


@pytest.fixture
def waiter(house: House) -> Waiter:
    return Waiter(house.queue.shard, "w1", Offer.of(None), name="w1", lasts=True)


async def test_what_is_given_ahead_of_a_slot_has_not_begun(house: House, waiter: Waiter) -> None:
    await house.queue.enqueue_many([house.queue.call("code") for _ in range(3)])

    grants = (await waiter.turn([], 3, begin=1)).answer.grants

    found = [await house.queue.get(f"task_{grant.task}") for grant in grants]
    assert [task.state for task in found] == [State.RUNNING] * 3
    assert [task.started_at is None for task in found] == [False, True, True]


async def test_one_that_was_ahead_begins_once(house: House, waiter: Waiter) -> None:
    await house.queue.enqueue("code")
    (grant,) = (await waiter.turn([], 1, begin=0)).answer.grants
    held = Held(grant.task, grant.token)

    assert await start(house.queue.shard, [held]) == ["OK"]
    began = (await house.queue.get(f"task_{grant.task}")).started_at
    assert await start(house.queue.shard, [held]) == ["OK"]

    assert began is not None
    assert (await house.queue.get(f"task_{grant.task}")).started_at == began


async def test_one_that_was_ahead_and_completed_began_when_it_was_claimed(
    house: House, waiter: Waiter
) -> None:
    await house.queue.enqueue("code")
    (grant,) = (await waiter.turn([], 1, begin=0)).answer.grants

    await waiter.turn([Settled(grant.task, grant.token, b"")], 0)

    task = await house.queue.get(f"task_{grant.task}")
    assert task.state is State.COMPLETED
    assert task.started_at is not None


@pytest.mark.parametrize(("begin", "spent"), [(1, 1), (0, 0)])
async def test_what_had_not_begun_spends_nothing_when_its_worker_is_lost(
    house: House, waiter: Waiter, begin: int, spent: int
) -> None:
    await house.queue.enqueue("code", max_attempts=5)
    (grant,) = (await waiter.turn([], 1, begin=begin)).answer.grants
    lease = await house.queue.lease(f"task_{grant.task}", grant.token, worker="w1")
    await house.age(lease, 3600)

    await house.reaper.tick()

    task = await house.queue.get(f"task_{grant.task}")
    assert (task.state in (State.READY, State.RETRYING), task.attempts) == (True, spent)


async def test_a_parked_claim_begins_only_what_it_has_slots_for(
    house: House, waiter: Waiter
) -> None:
    await house.queue.enqueue("code")
    (grant,) = (await waiter.turn([], 1)).answer.grants
    await waiter.turn([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000, begin=0)

    handle = await house.queue.enqueue("code")

    task = await house.task(handle.id)
    assert (task.state, task.started_at) == (State.RUNNING, None)
