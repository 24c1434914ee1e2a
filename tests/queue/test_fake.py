"""The quick tests: the same queue on fakeredis, as far as fakeredis supports it."""

from __future__ import annotations

import asyncio

import pytest
from redis import asyncio as aredis

from rqueue import RetryPolicy, State
from rqueue.errors import InvalidGraph, LeaseLost, TaskCancelled, TaskDead
from rqueue.store.connection import wrap
from rqueue.task.ids import new_task_id
from tests.harness import Harness, build


@pytest.fixture
def quick(fake: aredis.Redis) -> Harness:
    return build(wrap(fake), fake)


async def test_a_task_is_enqueued_claimed_and_completed(quick: Harness) -> None:
    handle = await quick.queue.enqueue("code", {"n": 1})
    (lease,) = await quick.queue.claim(worker="w1")
    await lease.start()
    await lease.renew()
    await lease.validate()
    await lease.complete({"done": True})

    assert (lease.id, lease.task.payload) == (handle.id, {"n": 1})
    assert await handle.result(timeout=5) == {"done": True}


async def test_priorities_and_options_are_respected(quick: Harness) -> None:
    queue = quick.queue
    low = await queue.enqueue("code", priority=90, tags=["a"], external_id="low")
    high = await queue.enqueue("code", priority=10)
    await queue.enqueue("code", required_capabilities=["git"])

    leases = await queue.claim(worker="w1", n=5)

    assert [lease.id for lease in leases] == [high.id, low.id]
    assert (await queue.get("low")).id == low.id


async def test_an_idempotency_key_is_one_task(quick: Harness) -> None:
    first = await quick.queue.enqueue("code", idempotency_key="k")
    second = await quick.queue.enqueue("code", idempotency_key="k")

    assert (second.id, second.created) == (first.id, False)


async def test_a_failed_task_is_retried_and_then_dead(quick: Harness) -> None:
    handle = await quick.queue.enqueue("code", max_attempts=2, retry=RetryPolicy.immediate())
    (lease,) = await quick.queue.claim(worker="w1")
    assert await lease.fail("error", "once") is State.RETRYING
    assert await quick.queue.run_now(handle.id) is True
    (lease,) = await quick.queue.claim(worker="w1")
    assert await lease.fail("error", "twice") is State.DEAD_LETTERED

    with pytest.raises(TaskDead, match="twice"):
        await handle.result(timeout=5)


async def test_the_holder_of_a_cancelled_task_loses_its_lease(quick: Harness) -> None:
    handle = await quick.queue.enqueue("code")
    (lease,) = await quick.queue.claim(worker="w1")

    assert await handle.cancel("no") is True

    with pytest.raises(LeaseLost):
        await lease.start()
    with pytest.raises(TaskCancelled):
        await handle.result(timeout=5)


async def test_dependents_wait_for_their_dependencies(quick: Harness) -> None:
    parent = await quick.queue.enqueue("code")
    child = await quick.queue.enqueue("code", depends_on=[parent.id])
    (lease,) = await quick.queue.claim(worker="w1", n=5)
    await lease.start()
    await lease.complete()

    assert [found.id for found in await quick.queue.claim(worker="w1")] == [child.id]
    with pytest.raises(InvalidGraph):
        await quick.queue.enqueue("code", depends_on=[new_task_id()])


async def test_tasks_of_one_call_keep_their_order(quick: Harness) -> None:
    handles = await asyncio.gather(*(quick.queue.enqueue("code", n) for n in range(100)))

    leases = await quick.queue.claim(worker="w1", n=100)

    assert [lease.id for lease in leases] == [handle.id for handle in handles]


async def test_the_queue_is_operated(quick: Harness) -> None:
    handle = await quick.queue.enqueue("code", {"n": 1}, delay=60)
    await quick.queue.edit(handle.id, {"n": 2})
    await quick.queue.set_priority(handle.id, 1)
    assert (await quick.queue.counts())["PENDING"] == 1

    swept = await quick.queue.purge(states=None)

    assert (swept.found, swept.done) == (1, 1)
