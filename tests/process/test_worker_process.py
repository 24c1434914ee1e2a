"""A worker process: its limits, and changes of its slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Retry
from rqueue.gauges import GAUGES
from rqueue.process import worker_process as worker_process_module
from rqueue.process.worker_process import Limits, WorkerProcess
from rqueue.worker.shared_slots import SharedSlots
from tests.harness import Harness
from tests.worker.running import until
from tests.worker.test_shared_slots import noting, queues_of, running_process


@asynccontextmanager
async def limited(
    harness: Harness, limits: Limits
) -> AsyncIterator[tuple[WorkerProcess, asyncio.Task[None]]]:
    """A process with one worker and limits."""
    worker_process = WorkerProcess(
        [harness.queue.worker(name="w1")], [], grace_sec=10, gauges=GAUGES, limits=limits
    )
    running = asyncio.create_task(worker_process.run())
    try:
        yield worker_process, running
    finally:
        worker_process.workers[0].stop()
        await asyncio.wait_for(running, 10)


async def test_every_settled_task_counts_for_max_tasks(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process_module, "CHECK_SEC", 0.01)
    queue = alone.queue

    @queue.task("good")
    async def good() -> None: ...

    @queue.task("bad", max_attempts=1)
    async def bad() -> None:
        raise ValueError

    @queue.task("again")
    async def again() -> None:
        raise Retry(after=3600)

    @queue.task("once", ack="before")
    async def once() -> None: ...

    async with limited(alone, Limits(max_tasks=4)) as (worker_process, running):
        for function in (good, bad, again):
            await function.enqueue()
        await until(lambda: worker_process.finished == 3)
        assert not worker_process.draining
        await once.enqueue()

        await asyncio.wait_for(asyncio.shield(running), 10)

    assert (worker_process.finished, worker_process.monitor.limit) == (4, "--max-tasks 4")


async def test_a_process_above_its_memory_limit_drains(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process_module, "CHECK_SEC", 0.01)
    used_mb = 50
    monkeypatch.setattr(worker_process_module, "resident_mb", lambda: used_mb)

    @alone.queue.task("grow")
    async def grow() -> None:
        nonlocal used_mb
        used_mb = 51

    async with limited(alone, Limits(max_rss_mb=50)) as (worker_process, running):
        await until(worker_process.workers[0].beat.thread.is_alive)
        assert worker_process.reached() == ""
        handle = await grow.enqueue()
        await asyncio.wait_for(asyncio.shield(running), 10)

    assert worker_process.monitor.limit == "--max-rss 50"
    assert str(await handle.status()) == "COMPLETED"


def test_the_resident_memory_is_measured() -> None:
    assert 5 < worker_process_module.resident_mb() < 100_000


async def test_shared_slots_are_resized_for_all_queues(alone: Harness) -> None:
    idle, busy = queues_of(alone)
    noting([idle])
    going, inside = asyncio.Event(), 0

    @busy.task("hold")
    async def hold() -> None:
        nonlocal inside
        inside += 1
        await going.wait()

    async with running_process([idle, busy], SharedSlots(1)) as worker_process:
        await busy.enqueue_many([busy.call("hold") for _ in range(4)])
        await until(lambda: inside == 1)

        worker_process.step(1)
        worker_process.step(1)
        # Sooner than an idle worker claims by itself.
        await until(lambda: inside == 3, within_sec=3)
        for _ in range(5):
            worker_process.step(-1)
        assert worker_process.slots == 1
        going.set()
        await until(lambda: inside == 4)


async def test_when_a_worker_raises_the_others_release_their_tasks(
    alone: Harness,
) -> None:
    sound, broken = queues_of(alone)
    noting([broken])
    begun = asyncio.Event()

    @sound.task("hold")
    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    @broken.lifespan
    async def life(_: dict[str, Any]) -> AsyncIterator[None]:
        await begun.wait()
        if begun.is_set():
            raise OSError("the database is down")
        yield

    handles = await sound.enqueue_many([sound.call("hold") for _ in range(3)])
    shared_slots = SharedSlots(2)
    workers = [queue.worker(name="w1", shared_slots=shared_slots) for queue in (sound, broken)]
    with pytest.raises(OSError, match="the database is down"):
        await asyncio.wait_for(WorkerProcess(workers, [], grace_sec=10, gauges=GAUGES).run(), 10)

    tasks = [await handle.task() for handle in handles]
    assert [(str(task.state), task.attempts) for task in tasks] == [("READY", 0)] * 3
