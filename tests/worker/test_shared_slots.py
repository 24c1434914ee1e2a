"""Several queues on the slots of one process, in strict order or by weight."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Queue
from rqueue.core.claim import Delivery
from rqueue.errors import StoreUnavailable
from rqueue.gauges import GAUGES
from rqueue.process.worker_process import WorkerProcess
from rqueue.runtime import assemble
from rqueue.worker.shared_slots import SharedSlots
from tests.harness import Harness
from tests.worker.running import until

COUNT = 60


def queues_of(harness: Harness) -> list[Queue]:
    """Two queues on one server that record whose task has run, and when they are full."""
    settings = harness.queue.settings
    return [
        Queue(
            name,
            runtime=assemble(
                settings.model_copy(update={"name": name}),
                harness.queue._internals.runtime.connection,
            ),
        )
        for name in ("critical", "default")
    ]


def noting(queues: Sequence[Queue]) -> list[str]:
    """Handlers that record the queue of each task."""
    ran: list[str] = []
    for queue in queues:

        @queue.task("note")
        async def note(name: str) -> None:
            await asyncio.sleep(0.001)
            ran.append(name)

    return ran


async def fill(queue: Queue, count: int = COUNT) -> None:
    await queue.enqueue_many([queue.call("note", {"name": queue.name}) for _ in range(count)])


@asynccontextmanager
async def running_process(
    queues: Sequence[Queue], shared_slots: SharedSlots
) -> AsyncIterator[WorkerProcess]:
    """A process with a worker for each queue."""
    workers = [queue.worker(name="w1", shared_slots=shared_slots) for queue in queues]
    worker_process = WorkerProcess(workers, [], grace_sec=10, gauges=GAUGES)
    running = asyncio.create_task(worker_process.run())
    try:
        yield worker_process
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.wait_for(running, 10)


async def test_in_strict_order_the_first_queue_is_emptied_first(alone: Harness) -> None:
    queues = queues_of(alone)
    ran = noting(queues)
    for queue in queues:
        await fill(queue)

    async with running_process(queues, SharedSlots(2)):
        await until(lambda: len(ran) == 2 * COUNT)

    # Except for what was claimed before the first queue was known to have work.
    assert Counter(ran[: COUNT + 4])["critical"] == COUNT


async def test_by_weight_both_queues_share_the_slots(alone: Harness) -> None:
    queues = queues_of(alone)
    ran = noting(queues)
    await fill(queues[0], 500)
    await fill(queues[1], 500)

    async with running_process(queues, SharedSlots(4, (4, 1))):
        await until(lambda: len(ran) >= 300)

    found = Counter(ran[:300])
    assert 3 <= found["critical"] / found["default"] <= 5


async def test_a_queue_without_work_reserves_no_slot(alone: Harness) -> None:
    critical, default = queues_of(alone)
    ran = noting([critical])
    going, inside = asyncio.Event(), 0

    @default.task("hold")
    async def hold() -> None:
        nonlocal inside
        inside += 1
        await going.wait()

    async with running_process([critical, default], SharedSlots(3)):
        await default.enqueue_many([default.call("hold") for _ in range(5)])
        await until(lambda: inside == 3)
        await fill(critical, 2)
        going.set()
        await until(lambda: len(ran) == 2 and inside == 5)


async def test_no_more_tasks_run_at_once_than_there_are_slots(alone: Harness) -> None:
    queues = queues_of(alone)
    shared_slots = SharedSlots(3, (1, 1))
    most = ended = 0
    for queue in queues:

        @queue.task("note")
        async def note(name: str) -> None:
            nonlocal most, ended
            most = max(most, shared_slots.taken)
            await asyncio.sleep(0.002)
            ended += 1

        await fill(queue, 30)

    async with running_process(queues, shared_slots):
        await until(lambda: ended == 60)

    assert (most, shared_slots.taken) == (3, 0)


async def test_a_process_drains_all_its_queues(alone: Harness) -> None:
    queues = queues_of(alone)
    ran = noting(queues)
    for queue in queues:
        await fill(queue, 5)

    async with running_process(queues, SharedSlots(2)) as worker_process:
        await until(lambda: len(ran) == 10)
        worker_process.drain()

    assert worker_process.draining
    assert worker_process.finished == 10


@pytest.mark.parametrize("weights", [(), (5, 1)])
@pytest.mark.parametrize("how", ["hangs", "refuses"])
async def test_an_unreachable_queue_reserves_no_slot(
    alone: Harness, monkeypatch: pytest.MonkeyPatch, how: str, weights: tuple[int, ...]
) -> None:
    unreachable, reachable = queues = queues_of(alone)
    ran = noting(queues)
    back = asyncio.Event()

    async def unavailable(*_: Any) -> Any:
        if how == "refuses":
            raise StoreUnavailable("reachable")
        await back.wait()
        raise StoreUnavailable("reachable")

    async def no_mail(_: float) -> Delivery:
        await asyncio.sleep(0.01)
        return Delivery(["lost"])

    async with running_process(queues, SharedSlots(2, weights)) as worker_process:
        await until(
            lambda: worker_process.workers[0].answered and worker_process.workers[1].answered
        )
        first = worker_process.workers[0].session
        with monkeypatch.context() as patch:
            patch.setattr(first, "exchange", unavailable)
            patch.setattr(first, "next_delivery", no_mail)
            worker_process.workers[0].waiting_claim.end()
            for number in range(1, 6):
                await fill(reachable, 2)
                await until(lambda number=number: len(ran) == 2 * number, within_sec=2)
        back.set()
        await fill(unreachable, 4)
        await until(lambda: Counter(ran)["critical"] == 4)
