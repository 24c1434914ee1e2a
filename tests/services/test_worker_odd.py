"""A worker in odd company: code that breaks around handlers, equal names, more slots than tasks."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest
from pydantic import BeforeValidator

from rqueue import Context, State
from rqueue.errors import TaskDead
from tests.house import House
from tests.services.working import until, until_counts, working


def broken(value: object) -> object:
    """A validator with a fault of its own."""
    raise KeyError("no such thing")


async def test_what_breaks_around_a_handler_fails_its_attempt(house: House) -> None:
    @house.queue.task("odd")
    async def odd(n: Annotated[int, BeforeValidator(broken)]) -> None: ...

    async with working(house.queue):
        handle = await house.queue.enqueue("odd", {"n": 1}, max_attempts=1)
        with pytest.raises(TaskDead, match="no such thing"):
            await handle.result(timeout=10)


async def test_a_task_acknowledged_before_is_nobodys_lease_while_it_runs(house: House) -> None:
    ends = asyncio.Event()
    done: list[str] = []

    @house.queue.task("once", ack="before")
    async def once() -> None:
        await ends.wait()
        done.append("to the end")

    async with working(house.queue) as worker:
        await (await once.enqueue()).result(timeout=10)
        await worker.beat.tick()
        ends.set()
        await until(lambda: not worker.slots.running)

    assert done == ["to the end"]


async def test_a_handler_gets_the_time_it_asks_for(house: House) -> None:
    @house.queue.task("slow", timeout=0.3, max_attempts=1)
    async def slow(ctx: Context) -> str:
        await ctx.extend(60)
        await asyncio.sleep(0.6)
        return "in time"

    async with working(house.queue):
        assert await (await slow.enqueue()).result(timeout=10) == "in time"


async def test_two_workers_of_one_name_run_each_task_once(house: House) -> None:
    seen: list[int] = []

    @house.queue.task("job")
    async def job(n: int) -> None:
        seen.append(n)
        await asyncio.sleep(0.01)

    await house.queue.enqueue_many([job.call(n) for n in range(200)])
    async with working(house.queue), working(house.queue):
        await until_counts(house, State.COMPLETED, 200)

    assert sorted(seen) == list(range(200))


async def test_more_slots_than_one_call_can_fill_are_filled_by_several(house: House) -> None:
    hold = asyncio.Event()

    @house.queue.task("held")
    async def held() -> None:
        await hold.wait()

    await house.queue.enqueue_many([held.call() for _ in range(1200)])
    async with working(house.queue, concurrency=9000) as worker:
        await until(lambda: len(worker.slots.running) == 1200)
        hold.set()
        await until_counts(house, State.COMPLETED, 1200)


async def test_a_run_that_is_cancelled_leaves_no_handler_running(house: House) -> None:
    ended = asyncio.Event()

    @house.queue.task("held")
    async def held() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await held.enqueue()
    worker = house.queue.worker()
    running = asyncio.create_task(worker.run())
    await until(lambda: len(worker.slots.running) == 1)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert ended.is_set()
