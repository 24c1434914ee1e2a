"""A queue in memory: every call of the queue works, and its own server is not used."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rqueue import RetryPolicy, State
from rqueue.errors import (
    InvalidGraph,
    InvalidTask,
    LeaseLost,
    ResultTimeout,
    TaskCancelled,
    TaskDead,
    TaskNotFound,
    TooManyLanes,
    WrongState,
)
from rqueue.task.ids import new_task_id
from rqueue.testing import Memory, memory
from tests.testing.shop import Shop


async def test_a_task_is_claimed_and_completed_by_hand(held: Memory) -> None:
    queue = held.queue
    handle = await queue.enqueue("code", {"n": 1})

    (lease,) = await queue.claim(worker="w1")
    await lease.start()
    await lease.renew()
    await lease.validate()
    await lease.complete({"done": True})

    assert (lease.id, lease.task.payload) == (handle.id, {"n": 1})
    assert await handle.result(timeout=5) == {"done": True}
    assert (await handle.task()).damaged == ()


async def test_tasks_run_by_priority_and_then_in_the_order_of_submission(held: Memory) -> None:
    queue = held.queue
    await queue.enqueue_many(
        [queue.call("code", n, priority=p) for n, p in enumerate([50, 10, 50])]
    )
    low = await queue.enqueue("code", 3, priority=90)
    await queue.set_priority(low.id, 1)

    leases = await queue.claim(worker="w1", n=10)

    assert [lease.task.payload for lease in leases] == [3, 1, 0, 2]


async def test_an_idempotency_key_is_one_task_until_the_task_fails(held: Memory) -> None:
    queue = held.queue
    first = await queue.enqueue("code", idempotency_key="k")
    second = await queue.enqueue("code", idempotency_key="k")
    await first.cancel()
    third = await queue.enqueue("code", idempotency_key="k")

    assert (second.id, second.created) == (first.id, False)
    assert third.created


async def test_a_waiting_task_is_replaced_or_debounced(held: Memory) -> None:
    queue = held.queue
    old = await queue.enqueue("code", 1, idempotency_key="r")
    new = await queue.enqueue("code", 2, idempotency_key="r", if_exists="replace")
    kept = await queue.enqueue("code", 1, idempotency_key="d", delay_sec=10)
    held.advance(5)
    again = await queue.enqueue("code", 2, idempotency_key="d", delay_sec=10, if_exists="debounce")
    held.advance(5)

    assert (await old.task()).cancel_reason == f"replaced by {new.id.ulid}"
    assert (again.id, again.created) == (kept.id, False)
    assert (await kept.status(), (await kept.task()).payload) == (State.PENDING, 2)


async def test_an_external_id_names_one_task(held: Memory) -> None:
    queue = held.queue
    first = await queue.enqueue("code", external_id="order 7")
    second = await queue.enqueue("code", external_id="order 7")
    child = await queue.enqueue("code", depends_on=["order 7"])

    assert (await queue.get("order 7")).id == first.id == second.id
    assert (await child.task()).blocked_by == (first.id,)
    with pytest.raises(TaskNotFound):
        await queue.get("order 8")


async def test_dependents_wait_for_their_dependencies_and_are_cancelled_with_them(
    held: Memory,
) -> None:
    queue = held.queue
    parent = await queue.enqueue("code")
    child = await queue.enqueue("code", depends_on=[parent.id])
    (lease,) = await queue.claim(worker="w1", n=5)
    await lease.start()
    await lease.complete()
    (lease,) = await queue.claim(worker="w1", n=5)
    grandchild = await queue.enqueue("code", depends_on=[child.id])
    await child.cancel("no more")

    assert lease.id == child.id
    with pytest.raises(LeaseLost):
        await lease.start()
    assert (await grandchild.task()).cancel_reason == f"Parent {child.id} cancelled"
    with pytest.raises(TaskCancelled, match="no more"):
        await child.result(timeout=5)
    with pytest.raises(InvalidGraph):
        await queue.enqueue("code", depends_on=[new_task_id()])


async def test_a_task_is_failed_parked_and_released_by_hand(held: Memory) -> None:
    queue = held.queue
    handle = await queue.enqueue("code", max_attempts=2, retry=RetryPolicy.immediate())
    (lease,) = await queue.claim(worker="w1")
    assert await lease.fail("error", "once") is State.RETRYING
    assert await queue.run_now(handle.id) is True
    (lease,) = await queue.claim(worker="w1")
    await lease.release()
    (lease,) = await queue.claim(worker="w1")
    await lease.start()
    await lease.park(60)
    assert (await handle.task()).failure_reason == "rate_limit"
    held.advance(60)
    (lease,) = await queue.claim(worker="w1")
    assert await lease.fail("error", "twice") is State.DEAD_LETTERED

    task = await handle.task()

    assert (task.attempts, task.epoch, len(task.failure_history)) == (2, 4, 2)
    with pytest.raises(TaskDead, match="twice"):
        await handle.result(timeout=5)


async def test_a_dead_task_is_revived_and_discarded(held: Memory) -> None:
    queue = held.queue
    handle = await queue.enqueue("code", {"n": 1}, max_attempts=1)
    (lease,) = await queue.claim(worker="w1")
    await lease.fail("error")

    assert await queue.dead.edit(handle.id, {"n": 2}) is State.READY
    (lease,) = await queue.claim(worker="w1")
    await lease.fail("error")
    await queue.dead.discard(handle.id, "enough")

    task = await handle.task()
    assert (task.life, task.payload, task.cancel_reason) == (2, {"n": 2}, "enough")
    with pytest.raises(WrongState):
        await queue.dead.discard((await queue.enqueue("code")).id)


async def test_the_queue_is_operated(held: Memory) -> None:
    queue = held.queue
    handle = await queue.enqueue("code", {"n": 1}, delay_sec=60, tags=["a"])
    await queue.enqueue("other", priority=95)
    await queue.edit(handle.id, {"n": 2})
    await queue.reschedule(handle.id, delay=5)
    await queue.pause(type="other")

    counts = await queue.counts()

    assert (counts["PENDING"], counts["READY"], counts.submitted) == (1, 1, 2)
    assert counts.paused == {"type=other"}
    assert [task.id async for task in queue.find(tag="a")] == [handle.id]
    assert await queue.claim(worker="w1", types=["other"]) == []
    await queue.resume(type="other")
    assert len(await queue.claim(worker="w1", types=["other"])) == 1
    held.advance(5)
    assert await handle.status() is State.READY
    swept = await queue.purge(states=None, type="code")
    assert (swept.found, swept.done) == (1, 1)


async def test_a_waiting_claim_is_answered_when_a_task_is_enqueued(held: Memory) -> None:
    queue = held.queue
    waiting = asyncio.create_task(queue.claim(worker="w1", wait=5))
    await asyncio.sleep(0)
    handle = await queue.enqueue("code")

    (lease,) = await waiting
    ended = asyncio.create_task(handle.result(timeout=5))
    await lease.start()
    await lease.complete("done")

    assert await ended == "done"


async def test_waiting_for_a_result_times_out(held: Memory) -> None:
    handle = await held.queue.enqueue("code")

    with pytest.raises(ResultTimeout):
        await handle.result(timeout=0.01)


async def test_the_queue_in_memory_refuses_invalid_calls_too(shop: Shop) -> None:
    shop = Shop("redis://nowhere.invalid:1", max_lanes=1)
    with memory(shop.queue) as held:
        await shop.queue.enqueue("code")
        with pytest.raises(TooManyLanes):
            await shop.queue.enqueue("other")
        with pytest.raises(InvalidTask):
            await shop.resize.enqueue(7)  # type: ignore[arg-type]

        assert len(held.tasks()) == 1


async def test_ended_tasks_are_stored_until_they_expire(held: Memory) -> None:
    handle = await held.queue.enqueue("code", result_ttl_sec=100)
    await handle.cancel()

    held.advance(99)
    assert await handle.status() is State.CANCELLED
    held.advance(1)
    with pytest.raises(TaskNotFound):
        await handle.status()


async def test_a_deadline_cancels_late_tasks_and_raises_the_priority_of_ready_ones(
    held: Memory,
) -> None:
    queue, soon = held.queue, held.now + timedelta(seconds=30)
    gone = await queue.enqueue("code", deadline=soon, on_deadline="cancel")
    dead = await queue.enqueue("code", deadline=soon, on_deadline="fail", depends_on=[gone.id])
    urgent = await queue.enqueue("code", deadline=held.now + timedelta(minutes=30))
    before = (await urgent.task()).effective_priority
    held.advance(31)

    assert (await gone.task()).cancel_reason == "deadline passed"
    assert await dead.status() in (State.DEAD_LETTERED, State.CANCELLED)
    held.advance(1500)
    after = (await urgent.task()).effective_priority
    assert before is not None
    assert after is not None
    assert after < before - 5


async def test_the_requested_number_of_replicas_always_confirms(held: Memory) -> None:
    handle = await held.queue.enqueue("code", wait_replicas=3)

    assert handle.created


def test_plain_tests_use_the_blocking_calls(shop: Shop, held: Memory) -> None:
    handle = shop.resize.sync.enqueue("a.png")
    (ran,) = held.sync.run_until_idle()

    assert (ran.id, ran.state) == (handle.id, State.COMPLETED)
    assert handle.result() == "800/a.png"


def test_the_queue_is_as_before_afterwards(shop: Shop) -> None:
    before = dict(vars(shop.queue))
    with memory(shop.queue) as outer:
        shop.resize.sync.enqueue("a.png")
        with memory(shop.queue) as inner:
            shop.resize.sync.enqueue("b.png")

        @shop.queue.task("new")
        async def new() -> None: ...

    assert vars(shop.queue) == before
    assert "new" in shop.queue._internals.registry.handlers
    assert [len(found.tasks()) for found in (outer, inner)] == [1, 1]


def test_the_start_time_may_be_given(shop: Shop) -> None:
    with memory(shop.queue, now=datetime(2030, 2, 28, 23, tzinfo=UTC)) as held:
        handle = shop.resize.options(at="2030-03-01T00:00:00Z").sync.enqueue("a.png")
        held.move_to("2030-03-01T00:00:00Z")

        (task,) = held.tasks(status="READY")
        assert (task.id, str(task.created_at)) == (handle.id, "2030-02-28 23:00:00+00:00")
