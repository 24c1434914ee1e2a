"""Operating a queue while it runs: priorities, times, edits, pauses, sweeps, counts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rqueue import State
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask, KeyTaken, TaskNotFound, WrongState
from rqueue.store.replies import moment
from rqueue.task.forms import view
from rqueue.task.ids import new_task_id
from rqueue.task.priority import Tier
from tests.harness import Harness
from tests.queue.until import claims_waiting


async def claim_ids(harness: Harness, n: int = 10) -> list[str]:
    return [lease.id for lease in await harness.queue.claim(worker="w1", n=n)]


async def test_a_new_priority_moves_a_task_and_is_shown(harness: Harness) -> None:
    first, second = await harness.queue.enqueue_many([{"type": "code"}] * 2)

    await harness.queue.set_priority(second.id, 10, scale="1-10")

    task = await second.task()
    assert (task.spec.priority, view(task, "A")["priority"]) == (0, 10)
    assert task.tier is Tier.CRITICAL
    assert await claim_ids(harness) == [second.id, first.id]


async def test_a_priority_may_be_set_repeatedly(harness: Harness) -> None:
    handle, other = await harness.queue.enqueue_many([{"type": "code"}] * 2)

    for priority in (0, 100, 30.5, 70):
        await harness.queue.set_priority(handle.id, priority)
        assert (await handle.task()).spec.priority == priority

    assert await claim_ids(harness) == [other.id, handle.id]


async def test_a_priority_out_of_scale_is_refused(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    before = await harness.dump()

    with pytest.raises(InvalidTask) as caught:
        await harness.queue.set_priority(handle.id, 101)

    assert caught.value.field == "priority"
    assert await harness.dump() == before


async def test_a_task_can_be_rescheduled(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", delay=3600)
    tomorrow = SYSTEM.now() + timedelta(days=1)

    await harness.queue.reschedule(handle.id, at=tomorrow)

    task = await handle.task()
    assert task.state is State.PENDING
    assert task.available_at is not None
    assert abs(task.available_at - tomorrow) < timedelta(milliseconds=2)
    assert await harness.queue.run_now(handle.id) is True
    assert await harness.queue.run_now(handle.id) is False
    assert await claim_ids(harness) == [handle.id]


async def test_a_ready_task_can_be_delayed(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")

    await harness.queue.reschedule(handle.id, delay=60)

    assert await claim_ids(harness) == []
    await harness.make_due(handle.id)
    await harness.promoter.tick()
    assert await claim_ids(harness) == [handle.id]


async def test_run_now_ends_only_the_delay(harness: Harness) -> None:
    parent = await harness.queue.enqueue("code")
    child = await harness.queue.enqueue("code", depends_on=[parent.id], delay=3600)

    assert await harness.queue.run_now(child.id) is True

    assert await child.status() is State.PENDING
    assert (await child.task()).blocked_by == (parent.id,)


@pytest.mark.parametrize(
    "times", [{}, {"delay": -1}, {"delay": float("nan")}, {"delay": 366 * 86_400}]
)
async def test_an_invalid_time_is_refused(harness: Harness, times: dict[str, float]) -> None:
    handle = await harness.queue.enqueue("code")
    before = await harness.dump()

    with pytest.raises(InvalidTask) as caught:
        await harness.queue.reschedule(handle.id, delay=times.get("delay"))

    assert caught.value.field == "delay"
    assert await harness.dump() == before


async def test_the_payload_of_a_waiting_task_can_be_changed(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1}, tags=["a"], priority=3, max_attempts=7)
    was = (await handle.task()).spec

    await harness.queue.edit(handle.id, {"n": [2, "ä"]})

    now = (await handle.task()).spec
    assert now.payload == {"n": [2, "ä"]}
    assert now.model_dump(exclude={"payload"}) == was.model_dump(exclude={"payload"})


async def test_of_concurrent_edits_one_remains(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", 0)

    await asyncio.gather(*(harness.queue.edit(handle.id, n) for n in range(1, 11)))

    assert (await handle.task()).payload in range(1, 11)


async def test_a_leased_or_ended_task_cannot_be_changed(harness: Harness) -> None:
    lease = await harness.running()
    for ended in (False, True):
        if ended:
            await lease.complete()
        for call in (
            harness.queue.edit(lease.id, {}),
            harness.queue.reschedule(lease.id, delay=1),
            harness.queue.run_now(lease.id),
            harness.queue.dead.discard(lease.id),
            harness.queue.dead.retry(lease.id),
        ):
            with pytest.raises(WrongState) as caught:
                await call
            assert caught.value.found == ("COMPLETED" if ended else "RUNNING")


async def test_operations_on_a_missing_task_raise(harness: Harness) -> None:
    missing = new_task_id()
    for call in (
        harness.queue.edit(missing, {}),
        harness.queue.set_priority(missing, 1),
        harness.queue.reschedule(missing, delay=1),
        harness.queue.run_now(missing),
        harness.queue.dead.discard(missing),
        harness.queue.dead.retry(missing),
    ):
        with pytest.raises(TaskNotFound):
            await call
    for unknown in (missing, str(missing.uuid), "never-seen", "\ud800"):
        assert await harness.queue.cancel(unknown) is False
    assert await harness.dump() == {}


async def test_no_task_of_a_paused_queue_is_claimed(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    await harness.queue.pause()

    assert await claim_ids(harness) == []
    assert (await harness.queue.counts()).paused == {"queue"}
    await harness.queue.resume()
    assert await claim_ids(harness) == [handle.id]


async def test_a_paused_type_or_lane_blocks_only_its_own_tasks(harness: Harness) -> None:
    code, mail = await harness.queue.enqueue("code"), await harness.queue.enqueue("mail")
    lane = int(await harness.client.hget(harness.keys.task(mail.id.ulid), "lane"))

    await harness.queue.pause(type="code")
    await harness.queue.pause(lane=lane)
    assert await claim_ids(harness) == []
    await harness.queue.resume(lane=lane)
    assert await claim_ids(harness) == [mail.id]
    await harness.queue.resume(type="code")
    assert await claim_ids(harness) == [code.id]


async def test_resuming_answers_waiting_claims(harness: Harness) -> None:
    await harness.queue.pause()
    handle = await harness.queue.enqueue("code")
    waiting = asyncio.create_task(harness.queue.claim(worker="w1", wait=30))
    await claims_waiting(harness, 1)

    await harness.queue.resume()

    assert [lease.id for lease in await waiting] == [handle.id]


async def test_a_dead_task_is_retried_with_another_payload(harness: Harness) -> None:
    lease = await harness.running(max_attempts=1)
    await lease.fail("error", "bad input")

    assert await harness.queue.dead.edit(lease.id, {"n": 2}) is State.READY

    task = await harness.task(lease.id)
    assert (task.payload, task.attempts, task.life) == ({"n": 2}, 0, 2)
    assert task.failure_history[0].error == "bad input"
    assert await claim_ids(harness) == [lease.id]


async def test_a_dead_task_whose_key_is_taken_stays_dead(harness: Harness) -> None:
    lease = await harness.running(idempotency_key="k", max_attempts=1)
    await lease.fail("error")
    other = await harness.queue.enqueue("code", idempotency_key="k")

    with pytest.raises(KeyTaken) as caught:
        await harness.queue.dead.retry(lease.id)

    assert (caught.value.task, caught.value.holder) == (lease.id, other.id)


async def test_a_dead_task_can_be_discarded(harness: Harness) -> None:
    lease = await harness.running(max_attempts=1)
    await lease.fail("error")

    await harness.queue.dead.discard(lease.id, "nobody wants it")

    task = await harness.task(lease.id)
    assert (task.state, task.cancel_reason) == (State.CANCELLED, "nobody wants it")


async def test_the_cancel_time_of_a_dead_task_is_the_time_of_its_discard(
    harness: Harness,
) -> None:
    lease = await harness.running(max_attempts=1)
    await lease.fail("error")
    await harness.client.hset(harness.keys.task(lease.id.ulid), "finished", "1794962239618")

    await harness.queue.dead.discard(lease.id, "nobody wants it")

    task = await harness.task(lease.id)
    given_up = await harness.client.hget(harness.keys.task(lease.id.ulid), "discarded")
    assert task.cancelled_at == moment(int(given_up))
    assert task.updated_at == moment(1794962239618)


async def test_a_time_more_than_a_year_away_is_refused(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {}, delay=60)

    with pytest.raises(InvalidTask, match="year"):
        await harness.queue.reschedule(handle.id, at=SYSTEM.now() + timedelta(days=400))
