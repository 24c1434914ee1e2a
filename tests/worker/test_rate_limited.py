"""A worker parks a task whose service is rate limited: no attempt is spent, other tasks of its type
wait too.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Context, RateLimited, State
from rqueue.gauges import gather_queues
from rqueue.process.monitor import ServedQueue
from tests.harness import Harness, opened
from tests.worker.running import until_counts, working


async def settled(harness: Harness, task: str, state: State) -> Any:
    """The task, when it is in this state."""
    await until_counts(harness, state, 1)
    return await harness.queue.get(task)


@pytest.mark.parametrize(
    "raised",
    [RateLimited(90), RateLimited(timedelta(seconds=90)), RuntimeError("429: retry after 90 s")],
    ids=["a signal", "a timedelta", "a text"],
)
async def test_a_rate_limited_task_is_parked(harness: Harness, raised: Exception) -> None:
    @harness.queue.task("call")
    async def call(ctx: Context) -> None:
        await ctx.checkpoint({"page": 7})
        raise raised

    async with working(harness.queue):
        handle = await call.enqueue()
        task = await settled(harness, handle.id, State.RETRYING)

    assert (task.attempts, task.parks, task.last_error) == (0, 1, None)
    wait = (task.available_at - task.created_at).total_seconds()
    assert 90 <= wait < 120
    assert await harness.client.sismember(harness.keys.slowed(), "call")
    assert await harness.queue.limits.breakers() == []


async def test_a_rate_limit_without_a_time_parks_for_about_a_minute(harness: Harness) -> None:
    @harness.queue.task("call")
    async def call() -> None:
        raise RateLimited

    async with working(harness.queue):
        handle = await call.enqueue()
        task = await settled(harness, handle.id, State.RETRYING)

    assert 60 <= (task.available_at - task.created_at).total_seconds() < 75


async def test_one_rate_limited_call_of_many_parks_the_task(server: Any) -> None:
    async with opened(server, breakers={}) as harness:

        @harness.queue.task("call")
        async def call() -> None:
            async def one(number: int) -> None:
                if number == 2:
                    raise RateLimited(90)
                await asyncio.Event().wait()

            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(one(number))

        async with working(harness.queue):
            handle = await call.enqueue()
            task = await settled(harness, handle.id, State.RETRYING)

        assert (task.attempts, task.parks) == (0, 1)
        assert await harness.queue.limits.breakers() == []


@pytest.mark.parametrize("wait", [1e308, 1_790_000_000, timedelta(days=1)])
async def test_a_long_wait_of_one_task_slows_its_type_for_a_bounded_time(
    server: Any, wait: Any
) -> None:
    async with opened(server, max_slowdown_sec=600) as harness:

        @harness.queue.task("call")
        async def call() -> None:
            raise RateLimited(wait)

        async with working(harness.queue):
            handle = await call.enqueue()
            task = await settled(harness, handle.id, State.RETRYING)

        wait = task.available_at - task.created_at
        assert timedelta(days=1) <= wait < timedelta(days=366)
        (slow,) = await harness.queue.limits.slowdowns()
        assert (slow.type, slow.over_at - slow.until) == ("call", timedelta(seconds=600))


async def test_metrics_show_slowdowns(harness: Harness) -> None:
    @harness.queue.task("call")
    async def call() -> None:
        raise RateLimited(90)

    # Both are enqueued before the worker starts: the first failure slows the type down.
    await call.enqueue()
    await call.options(limit_key="acme").enqueue()
    async with working(harness.queue):
        await until_counts(harness, State.RETRYING, 2)
        figures = await gather_queues([ServedQueue("sales", harness.queue._internals.shard)])

    cells = figures.cells["rqueue_slowdowns"]
    assert cells == {("sales", "type"): [1], ("sales", "key"): [1]}


async def test_a_task_parked_too_often_fails(server: Any) -> None:
    async with opened(server, max_rate_limit_parks=0) as harness:

        @harness.queue.task("call", max_attempts=1)
        async def call() -> None:
            raise RateLimited(5)

        async with working(harness.queue):
            handle = await call.enqueue()
            task = await settled(harness, handle.id, State.DEAD_LETTERED)

        assert (task.attempts, task.parks) == (1, 0)


async def test_with_rate_limit_counts_a_rate_limit_spends_an_attempt(server: Any) -> None:
    async with opened(server, rate_limit_counts=True) as harness:

        @harness.queue.task("call")
        async def call() -> None:
            raise RateLimited(50)

        async with working(harness.queue):
            handle = await call.enqueue()
            task = await settled(harness, handle.id, State.RETRYING)

        assert (task.attempts, task.parks) == (1, 0)
        assert not await harness.client.exists(harness.keys.slowed())
