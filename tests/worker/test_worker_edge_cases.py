"""Rare circumstances of a worker: errors around handlers, equal names, more slots than tasks."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest
from pydantic import BeforeValidator

from rqueue import Context, State
from rqueue.errors import TaskDead
from tests.harness import Harness
from tests.worker.running import until, until_counts, working


def broken(value: object) -> object:
    """A validator that raises."""
    raise KeyError("no such thing")


async def test_an_error_around_a_handler_fails_its_attempt(harness: Harness) -> None:
    @harness.queue.task("odd")
    async def odd(n: Annotated[int, BeforeValidator(broken)]) -> None: ...

    async with working(harness.queue):
        handle = await harness.queue.enqueue("odd", {"n": 1}, max_attempts=1)
        with pytest.raises(TaskDead, match="no such thing"):
            await handle.result(timeout=10)


async def test_a_task_acknowledged_before_has_no_lease_while_it_runs(harness: Harness) -> None:
    ends = asyncio.Event()
    done: list[str] = []

    @harness.queue.task("once", ack="before")
    async def once() -> None:
        await ends.wait()
        done.append("to the end")

    async with working(harness.queue) as worker:
        await (await once.enqueue()).result(timeout=10)
        await worker.beat.tick()
        ends.set()
        await until(lambda: not worker.slots.running)

    assert done == ["to the end"]


async def test_a_handler_can_extend_its_timeout(harness: Harness) -> None:
    @harness.queue.task("slow", timeout=0.3, max_attempts=1)
    async def slow(ctx: Context) -> str:
        await ctx.extend(60)
        await asyncio.sleep(0.6)
        return "in time"

    async with working(harness.queue):
        assert await (await slow.enqueue()).result(timeout=10) == "in time"


async def test_two_workers_with_one_name_run_each_task_once(harness: Harness) -> None:
    seen: list[int] = []

    @harness.queue.task("job")
    async def job(n: int) -> None:
        seen.append(n)
        await asyncio.sleep(0.01)

    await harness.queue.enqueue_many([job.call(n) for n in range(200)])
    async with working(harness.queue), working(harness.queue):
        await until_counts(harness, State.COMPLETED, 200)

    assert sorted(seen) == list(range(200))


async def test_many_slots_are_filled_by_several_claims(harness: Harness) -> None:
    hold = asyncio.Event()

    @harness.queue.task("held")
    async def held() -> None:
        await hold.wait()

    await harness.queue.enqueue_many([held.call() for _ in range(1200)])
    async with working(harness.queue, concurrency=9000) as worker:
        await until(lambda: len(worker.slots.running) == 1200)
        hold.set()
        await until_counts(harness, State.COMPLETED, 1200)


async def test_a_cancelled_worker_leaves_no_handler_running(harness: Harness) -> None:
    ended = asyncio.Event()

    @harness.queue.task("held")
    async def held() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await held.enqueue()
    worker = harness.queue.worker()
    running = asyncio.create_task(worker.run())
    await until(lambda: len(worker.slots.running) == 1)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert ended.is_set()
