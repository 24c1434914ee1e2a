"""The reaper gives back what silent workers hold, and holds still when silence means nothing."""

from __future__ import annotations

import asyncio
import re
from random import Random

import pytest
from redis import asyncio as aredis

from rqueue import Lease, State, Task
from rqueue.clock import SYSTEM
from rqueue.errors import LeaseLost
from rqueue.model.worker import Registration
from rqueue.policy.capability import Offer
from rqueue.policy.retry import UNHEARD
from rqueue.services.reaper import Reaper
from rqueue.store.claims import Waiter
from rqueue.store.connection import Connection
from rqueue.store.queue import in_hand
from tests.house import House, build
from tests.lua.worker.crew import enrol

LEASE = 30.0


async def test_a_silent_workers_task_is_tried_again(house: House) -> None:
    lease = await house.running(max_attempts=3)
    await house.age(lease, LEASE * 2)

    reaped = await house.reaper.tick()

    task = await house.task(lease.id)
    assert (reaped.retrying, task.state, task.attempts) == (1, State.RETRYING, 1)
    assert task.failure_reason == "heartbeat_timeout"
    with pytest.raises(LeaseLost):
        await lease.complete("too late")


async def test_a_claim_that_never_started_goes_back_free(house: House) -> None:
    lease = await house.claimed()
    await house.age(lease, LEASE * 2)

    reaped = await house.reaper.tick()

    task = await house.task(lease.id)
    assert (reaped.ready, task.state, task.attempts) == (1, State.READY, 0)


async def test_a_renewed_lease_is_left_alone(house: House) -> None:
    lease = await house.running()
    await house.age(lease, LEASE * 2)
    await lease.renew()

    reaped = await house.reaper.tick()

    assert (reaped.retrying, (await house.task(lease.id)).state) == (0, State.RUNNING)


async def test_one_that_was_lost_as_often_as_it_may_fail_is_dead(house: House) -> None:
    lease = await house.running(max_attempts=1)
    await house.age(lease, LEASE * 2)

    reaped = await house.reaper.tick()

    task = await house.task(lease.id)
    assert (reaped.dead, task.state) == (1, State.DEAD_LETTERED)
    assert (task.attempts, task.reclaims, task.failure_reason) == (1, 1, "heartbeat_timeout")


async def test_attempts_and_losses_add_up(house: House) -> None:
    lease = await house.running(max_attempts=2)
    await lease.fail()
    again = await taken_again(house, lease)
    await house.age(again, LEASE * 2)

    reaped = await house.reaper.tick()

    assert reaped.dead == 1
    assert (await house.task(lease.id)).attempts == 2


async def test_where_lost_workers_do_not_count_only_reclaims_are(
    connection: Connection, client: aredis.Redis
) -> None:
    house = build(connection, client, lost_worker_counts=False, max_reclaims=2)
    lease = await house.running(max_attempts=1)
    words = []
    for _ in range(3):
        await house.age(lease, LEASE * 2)
        reaped = await house.reaper.tick()
        words.append((reaped.retrying, reaped.dead))
        if reaped.retrying:
            lease = await taken_again(house, lease)

    task = await house.task(lease.id)
    assert words == [(1, 0), (1, 0), (0, 1)]
    assert (task.attempts, task.reclaims) == (0, 3)
    assert task.failure_reason == "lost_worker"
    await house.queue.aclose()


async def test_the_loss_is_kept_in_its_history(house: House) -> None:
    lease = await house.running()
    await house.age(lease, LEASE * 2)

    await house.reaper.tick()

    (record,) = (await house.task(lease.id)).failure_history
    assert (record.attempt, record.epoch, record.agent) == (1, 1, "w1")
    assert record.reason == "heartbeat_timeout"
    assert re.fullmatch(r"the worker was silent for 6\d s", record.error)


async def test_a_lost_task_with_one_chance_left_is_claimed_alone(house: House) -> None:
    lease = await house.running(max_attempts=2)
    await house.age(lease, LEASE * 2)
    await house.reaper.tick()
    await house.queue.run_now(lease.id)
    await house.queue.enqueue("code", {}, priority=90)

    (alone,) = await house.queue.claim(worker="w2", types=["code"], n=2)

    assert alone.id == lease.id
    assert await house.queue.claim(worker="w2", types=["code"]) == []


async def test_a_first_loss_is_the_workers_and_its_tasks_come_back_together(house: House) -> None:
    await house.queue.enqueue_many([house.queue.call("code", max_attempts=3)] * 3)
    for lease in await house.queue.claim(worker="w1", types=["code"], n=3):
        await lease.start()
        await house.age(lease, LEASE * 2)

    await house.reaper.tick()
    await house.promoter.tick()

    assert len(await house.queue.claim(worker="w2", types=["code"], n=3)) == 3


async def test_no_neighbour_takes_its_last_chance_beside_a_killer(house: House) -> None:
    await house.queue.enqueue_many([house.queue.call("code", max_attempts=2)] * 3)
    leases = await house.queue.claim(worker="w1", types=["code"], n=3)
    for lease in leases:
        await lease.start()
        await house.age(lease, LEASE * 2)

    reaped = await house.reaper.tick()

    for lease in leases:
        await house.queue.run_now(lease.id)
    given = [await house.queue.claim(worker=f"n{at}", types=["code"], n=3) for at in range(3)]
    assert reaped.retrying == 3
    assert [len(each) for each in given] == [1, 1, 1]


async def test_one_that_is_lost_again_and_again_before_it_is_heard_is_claimed_alone(
    house: House,
) -> None:
    handle = await house.queue.enqueue("code", max_attempts=3)
    for at in range(UNHEARD):
        waiter = Waiter(house.queue.shard, f"w{at}", Offer.of(None), name=f"w{at}", lasts=True)
        (grant,) = (await waiter.turn([], 1, begin=0)).answer.grants
        await house.age(await house.queue.lease(handle.id, grant.token, worker=f"w{at}"), LEASE * 2)
        await house.reaper.tick()
        await house.promoter.tick()
    await house.queue.enqueue("code", {}, priority=90)

    (alone,) = await house.queue.claim(worker="last", types=["code"], n=2)

    assert alone.id == handle.id
    # Nothing was spent: it is only taken in nobody's company.
    assert (await house.task(alone.id)).attempts == 0


async def lost_twice(house: House, slots: int) -> Task:
    """A task that was started by two workers, one after the other, which then fell silent."""
    said = Registration(types=("code",), max_concurrent_tasks=slots)
    for name in ("w1", "w2"):
        await enrol(house, name, f"{name}/a", said)
    lease = await house.running(max_attempts=9)
    await house.age(lease, LEASE * 2)
    await house.reaper.tick()
    await house.make_due(lease.id)
    await house.promoter.tick()
    (again,) = await house.queue.claim(worker="w2", types=["code"])
    await again.start()
    await house.age(again, LEASE * 2)
    reaped = await house.reaper.tick()
    task = await house.task(lease.id)
    assert reaped.poison == reaped.dead == int(task.poison_pill)
    return task


async def test_a_killer_of_two_workers_that_ran_nothing_else_is_a_poison_pill(
    house: House,
) -> None:
    task = await lost_twice(house, slots=1)

    assert (task.state, task.poison_pill) == (State.DEAD_LETTERED, True)
    assert (task.attempts, task.failed_by) == (2, ("w1", "w2"))


async def test_one_that_was_lost_in_company_is_none(house: House) -> None:
    task = await lost_twice(house, slots=2)

    assert (task.state, task.attempts, task.failed_by) == (State.RETRYING, 2, ())


async def test_one_that_was_claimed_alone_and_lost_counts(house: House) -> None:
    lease = await house.running(max_attempts=9)
    names = ("w1", "w2", "w3", "w4")
    for name in names[1:]:
        await house.age(lease, LEASE * 2)
        await house.reaper.tick()
        await house.make_due(lease.id)
        await house.promoter.tick()
        (lease,) = await house.queue.claim(worker=name, types=["code"])
        await lease.start()
    await house.age(lease, LEASE * 2)

    # From its second loss on it was claimed alone: its third and fourth are its own.
    assert (await house.reaper.tick()).poison == 1
    assert (await house.task(lease.id)).failed_by == ("w3", "w4")


async def test_two_reapers_take_one_lease_once(house: House) -> None:
    lease = await house.running()
    await house.age(lease, LEASE * 2)
    other = Reaper(
        house.queue.shard, house.queue.runtime.reader, house.queue.settings,
        clock=SYSTEM, random=Random(8),
    )  # fmt: skip

    ticks = await asyncio.gather(house.reaper.tick(), other.tick())

    assert sum(tick.retrying for tick in ticks) == 1
    task = await house.task(lease.id)
    assert (task.attempts, task.reclaims, len(task.failure_history)) == (1, 1, 1)


async def test_a_decision_that_comes_late_finds_the_lease_held(house: House) -> None:
    lease = await house.running()
    await house.age(lease, LEASE * 2)
    page = await in_hand(house.queue.shard, idle_ms=1000)
    await lease.renew()

    assert [word for _, word in await house.reaper.settle(page)] == ["HELD"]
    assert (await house.task(lease.id)).attempts == 0


async def test_a_tick_goes_through_all_pages(house: House) -> None:
    await house.queue.enqueue_many([house.queue.call("code")] * 450)
    for lease in await house.queue.claim(worker="w1", types=["code"], n=450):
        await house.age(lease, LEASE * 2)

    assert (await house.reaper.tick()).ready == 450
    assert (await house.queue.counts())[State.READY] == 450


async def test_a_lease_without_its_task_stops_nobody(house: House) -> None:
    ghost, lease = await house.running(), await house.running()
    for each in (ghost, lease):
        await house.age(each, LEASE * 2)
    await house.client.delete(house.keys.task(ghost.id.ulid))

    assert (await house.reaper.tick()).retrying == 1


async def taken_again(house: House, lease: Lease) -> Lease:
    """The task of an earlier lease, started anew by the same worker."""
    await house.queue.run_now(lease.id)
    (again,) = await house.queue.claim(worker="w1", types=["code"])
    await again.start()
    return again
