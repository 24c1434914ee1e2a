"""A worker on duty: its limits, and slots that change while it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Retry
from rqueue.services import duty as duty_module
from rqueue.services.duty import Duty, Limits
from rqueue.services.seats import Seats
from tests.house import House
from tests.services.test_seats import noting, on_duty, queues_of
from tests.services.working import until


@asynccontextmanager
async def limited(house: House, limits: Limits) -> AsyncIterator[tuple[Duty, asyncio.Task[None]]]:
    """A process with one worker and limits."""
    duty = Duty([house.queue.worker(name="w1")], [], grace_sec=10, limits=limits)
    running = asyncio.create_task(duty.run())
    try:
        yield duty, running
    finally:
        duty.workers[0].stop()
        await asyncio.wait_for(running, 10)


async def test_every_task_that_was_settled_counts(
    alone: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duty_module, "LOOK_SEC", 0.01)
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

    async with limited(alone, Limits(max_tasks=4)) as (duty, running):
        for function in (good, bad, again):
            await function.enqueue()
        await until(lambda: duty.finished == 3)
        assert not duty.draining
        await once.enqueue()

        await asyncio.wait_for(asyncio.shield(running), 10)

    assert (duty.finished, duty.watch.limit) == (4, "--max-tasks 4")


async def test_above_its_memory_a_process_drains(
    alone: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duty_module, "LOOK_SEC", 0.01)
    used_mb = 50
    monkeypatch.setattr(duty_module, "resident_mb", lambda: used_mb)

    @alone.queue.task("grow")
    async def grow() -> None:
        nonlocal used_mb
        used_mb = 51

    async with limited(alone, Limits(max_rss_mb=50)) as (duty, running):
        await until(duty.workers[0].beat.thread.is_alive)
        assert duty.reached() == ""
        handle = await grow.enqueue()
        await asyncio.wait_for(asyncio.shield(running), 10)

    assert duty.watch.limit == "--max-rss 50"
    assert str(await handle.status()) == "COMPLETED"


def test_the_memory_in_use_is_known_here() -> None:
    assert 5 < duty_module.resident_mb() < 100_000


async def test_slots_that_are_shared_change_for_all_queues(alone: House) -> None:
    idle, busy = queues_of(alone)
    noting([idle])
    going, inside = asyncio.Event(), 0

    @busy.task("hold")
    async def hold() -> None:
        nonlocal inside
        inside += 1
        await going.wait()

    async with on_duty([idle, busy], Seats(1)) as duty:
        await busy.enqueue_many([busy.call("hold") for _ in range(4)])
        await until(lambda: inside == 1)

        duty.step(1)
        duty.step(1)
        # Sooner than an idle worker asks again by itself.
        await until(lambda: inside == 3, within_sec=3)
        for _ in range(5):
            duty.step(-1)
        assert duty.slots == 1
        going.set()
        await until(lambda: inside == 4)


async def test_a_worker_that_breaks_lets_the_others_give_back_what_they_have(alone: House) -> None:
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
    seats = Seats(2)
    workers = [queue.worker(name="w1", seats=seats) for queue in (sound, broken)]
    with pytest.raises(OSError, match="the database is down"):
        await asyncio.wait_for(Duty(workers, [], grace_sec=10).run(), 10)

    tasks = [await handle.task() for handle in handles]
    assert [(str(task.state), task.attempts) for task in tasks] == [("READY", 0)] * 3
