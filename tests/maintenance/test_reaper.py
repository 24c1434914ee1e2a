"""The reaper reclaims the leases of silent workers, and waits when silence means nothing."""

from __future__ import annotations

import asyncio
import re
from random import Random

import pytest
from redis import asyncio as aredis

from rqueue import Lease, State, Task
from rqueue.clock import SYSTEM
from rqueue.core.claim import WaitingClaim
from rqueue.core.counts import read_leases
from rqueue.core.workers import Registration
from rqueue.errors import LeaseLost
from rqueue.maintenance.reaper import Reaper
from rqueue.store.connection import Connection
from rqueue.task.attempt.retry import UNSTARTED_CLAIMS
from rqueue.task.lane import Offer
from tests.harness import Harness, build
from tests.lua.worker.registered import register_worker

LEASE = 30.0


async def test_the_task_of_a_silent_worker_is_retried(harness: Harness) -> None:
    lease = await harness.running(max_attempts=3)
    await harness.age(lease, LEASE * 2)

    reaped = await harness.reaper.tick()

    task = await harness.task(lease.id)
    assert (reaped.retrying, task.state, task.attempts) == (1, State.RETRYING, 1)
    assert task.failure_reason == "heartbeat_timeout"
    with pytest.raises(LeaseLost):
        await lease.complete("too late")


async def test_a_task_that_was_not_started_is_ready_again_without_an_attempt(
    harness: Harness,
) -> None:
    lease = await harness.claimed()
    await harness.age(lease, LEASE * 2)

    reaped = await harness.reaper.tick()

    task = await harness.task(lease.id)
    assert (reaped.ready, task.state, task.attempts) == (1, State.READY, 0)


async def test_a_renewed_lease_is_kept(harness: Harness) -> None:
    lease = await harness.running()
    await harness.age(lease, LEASE * 2)
    await lease.renew()

    reaped = await harness.reaper.tick()

    assert (reaped.retrying, (await harness.task(lease.id)).state) == (0, State.RUNNING)


async def test_a_task_lost_in_all_its_attempts_is_dead(harness: Harness) -> None:
    lease = await harness.running(max_attempts=1)
    await harness.age(lease, LEASE * 2)

    reaped = await harness.reaper.tick()

    task = await harness.task(lease.id)
    assert (reaped.dead, task.state) == (1, State.DEAD_LETTERED)
    assert (task.attempts, task.reclaims, task.failure_reason) == (1, 1, "heartbeat_timeout")


async def test_attempts_and_losses_add_up(harness: Harness) -> None:
    lease = await harness.running(max_attempts=2)
    await lease.fail()
    again = await taken_again(harness, lease)
    await harness.age(again, LEASE * 2)

    reaped = await harness.reaper.tick()

    assert reaped.dead == 1
    assert (await harness.task(lease.id)).attempts == 2


async def test_without_lost_worker_counts_losses_count_only_as_reclaims(
    connection: Connection, client: aredis.Redis
) -> None:
    harness = build(connection, client, lost_worker_counts=False, max_reclaims=2)
    lease = await harness.running(max_attempts=1)
    words = []
    for _ in range(3):
        await harness.age(lease, LEASE * 2)
        reaped = await harness.reaper.tick()
        words.append((reaped.retrying, reaped.dead))
        if reaped.retrying:
            lease = await taken_again(harness, lease)

    task = await harness.task(lease.id)
    assert words == [(1, 0), (1, 0), (0, 1)]
    assert (task.attempts, task.reclaims) == (0, 3)
    assert task.failure_reason == "lost_worker"
    await harness.queue.aclose()


async def test_the_loss_is_kept_in_its_history(harness: Harness) -> None:
    lease = await harness.running()
    await harness.age(lease, LEASE * 2)

    await harness.reaper.tick()

    (record,) = (await harness.task(lease.id)).failure_history
    assert (record.attempt, record.epoch, record.agent) == (1, 1, "w1")
    assert record.reason == "heartbeat_timeout"
    assert re.fullmatch(r"the worker was silent for 6\d s", record.error)


async def test_a_lost_task_with_one_attempt_left_is_exclusive(harness: Harness) -> None:
    lease = await harness.running(max_attempts=2)
    await harness.age(lease, LEASE * 2)
    await harness.reaper.tick()
    await harness.queue.run_now(lease.id)
    await harness.queue.enqueue("code", {}, priority=90)

    (exclusive,) = await harness.queue.claim(worker="w2", types=["code"], n=2)

    assert exclusive.id == lease.id
    assert await harness.queue.claim(worker="w2", types=["code"]) == []


async def test_after_a_first_loss_the_tasks_of_a_worker_can_be_claimed_together(
    harness: Harness,
) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code", max_attempts=3)] * 3)
    for lease in await harness.queue.claim(worker="w1", types=["code"], n=3):
        await lease.start()
        await harness.age(lease, LEASE * 2)

    await harness.reaper.tick()
    await harness.promoter.tick()

    assert len(await harness.queue.claim(worker="w2", types=["code"], n=3)) == 3


async def test_lost_tasks_with_one_attempt_left_run_in_separate_workers(harness: Harness) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code", max_attempts=2)] * 3)
    leases = await harness.queue.claim(worker="w1", types=["code"], n=3)
    for lease in leases:
        await lease.start()
        await harness.age(lease, LEASE * 2)

    reaped = await harness.reaper.tick()

    for lease in leases:
        await harness.queue.run_now(lease.id)
    given = [await harness.queue.claim(worker=f"n{at}", types=["code"], n=3) for at in range(3)]
    assert reaped.retrying == 3
    assert [len(each) for each in given] == [1, 1, 1]


async def test_a_task_lost_repeatedly_before_its_start_is_exclusive(
    harness: Harness,
) -> None:
    handle = await harness.queue.enqueue("code", max_attempts=3)
    for at in range(UNSTARTED_CLAIMS):
        waiter = WaitingClaim(
            harness.queue._internals.shard, f"w{at}", Offer.of(None), name=f"w{at}", lasts=True
        )
        (grant,) = (await waiter.exchange([], 1, begin=0)).answer.grants
        await harness.age(
            await harness.queue.lease(handle.id, grant.token, worker=f"w{at}"), LEASE * 2
        )
        await harness.reaper.tick()
        await harness.promoter.tick()
    await harness.queue.enqueue("code", {}, priority=90)

    (exclusive,) = await harness.queue.claim(worker="last", types=["code"], n=2)

    assert exclusive.id == handle.id
    # No attempt was spent: the task is only exclusive.
    assert (await harness.task(exclusive.id)).attempts == 0


async def lost_twice(harness: Harness, slots: int) -> Task:
    """A task that two workers started, one after the other, which then fell silent."""
    registration = Registration(types=("code",), max_concurrent_tasks=slots)
    for name in ("w1", "w2"):
        await register_worker(harness, name, f"{name}/a", registration)
    lease = await harness.running(max_attempts=9)
    await harness.age(lease, LEASE * 2)
    await harness.reaper.tick()
    await harness.make_due(lease.id)
    await harness.promoter.tick()
    (again,) = await harness.queue.claim(worker="w2", types=["code"])
    await again.start()
    await harness.age(again, LEASE * 2)
    reaped = await harness.reaper.tick()
    task = await harness.task(lease.id)
    assert reaped.poison == reaped.dead == int(task.poison_pill)
    return task


async def test_a_task_that_killed_two_workers_running_nothing_else_is_a_poison_pill(
    harness: Harness,
) -> None:
    task = await lost_twice(harness, slots=1)

    assert (task.state, task.poison_pill) == (State.DEAD_LETTERED, True)
    assert (task.attempts, task.failed_by) == (2, ("w1", "w2"))


async def test_a_task_lost_beside_others_is_not_a_poison_pill(harness: Harness) -> None:
    task = await lost_twice(harness, slots=2)

    assert (task.state, task.attempts, task.failed_by) == (State.RETRYING, 2, ())


async def test_the_loss_of_an_exclusive_task_counts(harness: Harness) -> None:
    lease = await harness.running(max_attempts=9)
    names = ("w1", "w2", "w3", "w4")
    for name in names[1:]:
        await harness.age(lease, LEASE * 2)
        await harness.reaper.tick()
        await harness.make_due(lease.id)
        await harness.promoter.tick()
        (lease,) = await harness.queue.claim(worker=name, types=["code"])
        await lease.start()
    await harness.age(lease, LEASE * 2)

    # From its second loss on it was exclusive: its third and fourth loss are its own.
    assert (await harness.reaper.tick()).poison == 1
    assert (await harness.task(lease.id)).failed_by == ("w3", "w4")


async def test_two_concurrent_reapers_reclaim_a_lease_once(harness: Harness) -> None:
    lease = await harness.running()
    await harness.age(lease, LEASE * 2)
    other = Reaper(
        harness.queue._internals.shard, harness.queue._internals.reader,
        harness.queue.settings,
        clock=SYSTEM, random=Random(8),
    )  # fmt: skip

    ticks = await asyncio.gather(harness.reaper.tick(), other.tick())

    assert sum(tick.retrying for tick in ticks) == 1
    task = await harness.task(lease.id)
    assert (task.attempts, task.reclaims, len(task.failure_history)) == (1, 1, 1)


async def test_a_late_decision_does_not_reclaim_a_renewed_lease(harness: Harness) -> None:
    lease = await harness.running()
    await harness.age(lease, LEASE * 2)
    page = await read_leases(harness.queue._internals.shard, idle_ms=1000)
    await lease.renew()

    assert [word for _, word in await harness.reaper.settle(page)] == ["HELD"]
    assert (await harness.task(lease.id)).attempts == 0


async def test_a_tick_goes_through_all_pages(harness: Harness) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code")] * 450)
    for lease in await harness.queue.claim(worker="w1", types=["code"], n=450):
        await harness.age(lease, LEASE * 2)

    assert (await harness.reaper.tick()).ready == 450
    assert (await harness.queue.counts())[State.READY] == 450


async def test_a_lease_without_its_task_does_not_stop_the_reaper(harness: Harness) -> None:
    ghost, lease = await harness.running(), await harness.running()
    for each in (ghost, lease):
        await harness.age(each, LEASE * 2)
    await harness.client.delete(harness.keys.task(ghost.id.ulid))

    assert (await harness.reaper.tick()).retrying == 1


async def taken_again(harness: Harness, lease: Lease) -> Lease:
    """The task of an earlier lease, started again by the same worker."""
    await harness.queue.run_now(lease.id)
    (again,) = await harness.queue.claim(worker="w1", types=["code"])
    await again.start()
    return again
