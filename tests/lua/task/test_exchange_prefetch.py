"""exchange: a prefetched task is leased, and has not begun until it gets a slot."""

from __future__ import annotations

import pytest

from rqueue import State
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import HeldLease, Settled, start
from rqueue.task.lane import Offer
from tests.harness import Harness


@pytest.fixture
def waiter(harness: Harness) -> WaitingClaim:
    return WaitingClaim(harness.queue._internals.shard, "w1", Offer.of(None), name="w1", lasts=True)


async def test_a_prefetched_task_has_not_begun(harness: Harness, waiter: WaitingClaim) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code") for _ in range(3)])

    grants = (await waiter.exchange([], 3, begin=1)).answer.grants

    found = [await harness.queue.get(f"task_{grant.task}") for grant in grants]
    assert [task.state for task in found] == [State.RUNNING] * 3
    assert [task.started_at is None for task in found] == [False, True, True]


async def test_a_prefetched_task_begins_once(harness: Harness, waiter: WaitingClaim) -> None:
    await harness.queue.enqueue("code")
    (grant,) = (await waiter.exchange([], 1, begin=0)).answer.grants
    held = HeldLease(grant.task, grant.token)

    assert await start(harness.queue._internals.shard, [held]) == ["OK"]
    began = (await harness.queue.get(f"task_{grant.task}")).started_at
    assert await start(harness.queue._internals.shard, [held]) == ["OK"]

    assert began is not None
    assert (await harness.queue.get(f"task_{grant.task}")).started_at == began


async def test_a_prefetched_task_that_completed_began_at_its_claim(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await harness.queue.enqueue("code")
    (grant,) = (await waiter.exchange([], 1, begin=0)).answer.grants

    await waiter.exchange([Settled(grant.task, grant.token, b"")], 0)

    task = await harness.queue.get(f"task_{grant.task}")
    assert task.state is State.COMPLETED
    assert task.started_at is not None


@pytest.mark.parametrize(("begin", "spent"), [(1, 1), (0, 0)])
async def test_a_prefetched_task_spends_no_attempt_when_its_worker_is_lost(
    harness: Harness, waiter: WaitingClaim, begin: int, spent: int
) -> None:
    await harness.queue.enqueue("code", max_attempts=5)
    (grant,) = (await waiter.exchange([], 1, begin=begin)).answer.grants
    lease = await harness.queue.lease(f"task_{grant.task}", grant.token, worker="w1")
    await harness.age(lease, 3600)

    await harness.reaper.tick()

    task = await harness.queue.get(f"task_{grant.task}")
    assert (task.state in (State.READY, State.RETRYING), task.attempts) == (True, spent)


async def test_a_waiting_claim_begins_only_tasks_it_has_slots_for(
    harness: Harness, waiter: WaitingClaim
) -> None:
    await harness.queue.enqueue("code")
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    await waiter.exchange([Settled(grant.task, grant.token, b"")], 2, wait_ms=5000, begin=0)

    handle = await harness.queue.enqueue("code")

    task = await harness.task(handle.id)
    assert (task.state, task.started_at) == (State.RUNNING, None)
