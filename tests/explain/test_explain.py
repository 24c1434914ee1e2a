"""`queue.explain`: the terms of a task's priority, and its position."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqueue import Queue, State
from rqueue.clock import SYSTEM
from rqueue.errors import TaskNotFound, WrongState
from rqueue.maintenance.rescorer import Rescorer
from rqueue.task.ids import new_task_id
from rqueue.task.lane import Lane
from rqueue.task.priority import deadline_boost
from rqueue.testing import memory
from tests.harness import Harness


async def test_a_missing_task_is_not_found(harness: Harness) -> None:
    for name in (new_task_id(), "order-17"):
        with pytest.raises(TaskNotFound):
            await harness.queue.explain(name)


@pytest.mark.parametrize("end", ["complete", "cancel", "die"])
async def test_an_ended_task_has_no_priority(harness: Harness, end: str) -> None:
    lease = await harness.running()
    match end:
        case "complete":
            await lease.complete()
        case "cancel":
            await harness.queue.cancel(lease.id)
        case _:
            await lease.fail("error", "it broke", permanent=True)

    with pytest.raises(WrongState) as raised:
        await harness.queue.explain(lease.id)
    assert "READY" in raised.value.wanted


async def test_a_plain_task_has_a_base_priority_and_an_age_boost(harness: Harness) -> None:
    await harness.queue.enqueue("mail", priority=5)
    handle = await harness.queue.enqueue("code", priority=20, external_id="order-17")

    found = await harness.queue.explain("order-17")

    assert (found.task, found.state, found.tier) == (handle.id, State.READY, "high")
    assert (found.terms.base, found.terms.rate, found.terms.slack_sec) == (20, 0.1, None)
    assert found.terms.effective == pytest.approx(20, abs=0.1)
    assert (found.lane, found.lane_number) == (Lane("code", 0.1), 2)
    assert (found.stands, found.position, found.ahead) == (True, 1, 1)


async def test_a_changed_priority_is_the_base(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", priority=20)
    await harness.queue.set_priority(handle.id, 70)

    found = await harness.queue.explain(handle.id)

    assert (found.terms.base, found.tier) == (70, "low")


async def test_the_stored_deadline_boost_counts(harness: Harness) -> None:
    deadline = SYSTEM.now() + timedelta(minutes=30)
    handle = await harness.queue.enqueue("code", deadline=deadline, expected_duration_sec=600)

    terms = (await harness.queue.explain(handle.id)).terms

    assert terms.slack_sec == pytest.approx(1200, abs=5)
    assert terms.deadline_boost == pytest.approx(deadline_boost(1200), abs=0.2)
    assert terms.effective == pytest.approx(50 - deadline_boost(1200), abs=0.3)
    await Rescorer(harness.queue._internals.shard, harness.queue._internals.runtime.reader).tick()
    again = (await harness.queue.explain(handle.id)).terms
    assert again.deadline_boost == pytest.approx(again.deadline_boost_now, abs=1.0)


async def test_the_critical_path_counts(harness: Harness) -> None:
    async with harness.queue.dag("Ship") as dag:
        build = dag.add(harness.queue.call("build"))
        dag.add(harness.queue.call("test"), after=[build])

    found = await harness.queue.explain(build.id)

    assert found.terms.path_boost == 10
    assert found.terms.effective == pytest.approx(40, abs=0.1)


async def test_a_waiting_task_gets_its_position_as_if_it_were_ready(harness: Harness) -> None:
    await harness.queue.enqueue("code", priority=5)
    handle = await harness.queue.enqueue("code", delay=60)

    found = await harness.queue.explain(handle.id)

    assert (found.state, found.stands) == (State.PENDING, False)
    assert (found.position, found.ahead, found.worker) == (2, 1, None)


async def test_a_leased_task_has_terms_and_a_worker(harness: Harness) -> None:
    lease = await harness.running(priority=20)

    found = await harness.queue.explain(lease.id)

    assert (found.state, found.stands, found.worker) == (State.RUNNING, False, "w1")
    assert (found.position, found.ahead, found.terms.base) == (None, None, 20)


async def test_a_task_of_a_paused_dag_is_not_in_its_lane(harness: Harness) -> None:
    async with harness.queue.dag("Ship") as dag:
        build = dag.add(harness.queue.call("build"))
    await harness.queue.dags.pause(build.id)
    await harness.queue.claim(worker="w1")

    found = await harness.queue.explain(build.id)

    assert (found.state, found.stands, found.position) == (State.READY, False, 1)


async def test_the_explanation_in_memory_is_the_same() -> None:
    queue = Queue("shop", url="redis://nowhere")
    with memory(queue) as held:
        first = await queue.enqueue("mail", priority=40)
        held.advance(600)
        handle = await queue.enqueue("code", priority=39.5)
        waiting = await queue.enqueue("code", priority=60, delay=60)

        found = [await queue.explain(one.id) for one in (first, handle, waiting)]

        assert [(one.position, one.ahead, one.stands) for one in found] == [
            (1, 0, True), (1, 1, True), (2, 2, False),
        ]  # fmt: skip
        assert found[0].terms.age_sec == pytest.approx(600)
        assert found[0].terms.effective == pytest.approx(39.0)
