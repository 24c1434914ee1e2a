"""A worker sets a task aside whose service is limited: no attempt is spent, others wait too."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Context, RateLimited, State
from rqueue.services.gathering import Watched, gather_queues
from tests.house import House, opened
from tests.services.working import until_counts, working


async def settled(house: House, task: str, state: State) -> Any:
    """The task, when it has come so far."""
    await until_counts(house, state, 1)
    return await house.queue.get(task)


@pytest.mark.parametrize(
    "raised",
    [RateLimited(90), RateLimited(timedelta(seconds=90)), RuntimeError("429: retry after 90 s")],
    ids=["a signal", "a timedelta", "a text"],
)
async def test_a_limited_task_is_set_aside(house: House, raised: Exception) -> None:
    @house.queue.task("call")
    async def call(ctx: Context) -> None:
        await ctx.checkpoint({"page": 7})
        raise raised

    async with working(house.queue):
        handle = await call.enqueue()
        task = await settled(house, handle.id, State.RETRYING)

    assert (task.attempts, task.parks, task.last_error) == (0, 1, None)
    wait = (task.available_at - task.created_at).total_seconds()
    assert 90 <= wait < 120
    assert await house.client.sismember(house.keys.slowed(), "call")
    assert await house.queue.breakers() == []


async def test_without_a_time_it_waits_for_about_a_minute(house: House) -> None:
    @house.queue.task("call")
    async def call() -> None:
        raise RateLimited

    async with working(house.queue):
        handle = await call.enqueue()
        task = await settled(house, handle.id, State.RETRYING)

    assert 60 <= (task.available_at - task.created_at).total_seconds() < 75


async def test_one_limited_call_of_many_sets_the_task_aside(server: Any) -> None:
    async with opened(server, breakers={}) as house:

        @house.queue.task("call")
        async def call() -> None:
            async def one(number: int) -> None:
                if number == 2:
                    raise RateLimited(90)
                await asyncio.Event().wait()

            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(one(number))

        async with working(house.queue):
            handle = await call.enqueue()
            task = await settled(house, handle.id, State.RETRYING)

        assert (task.attempts, task.parks) == (0, 1)
        assert await house.queue.breakers() == []


@pytest.mark.parametrize("asked", [1e308, 1_790_000_000, timedelta(days=1)])
async def test_one_long_wait_does_not_stop_the_fleet_for_as_long(server: Any, asked: Any) -> None:
    async with opened(server, max_slowdown_sec=600) as house:

        @house.queue.task("call")
        async def call() -> None:
            raise RateLimited(asked)

        async with working(house.queue):
            handle = await call.enqueue()
            task = await settled(house, handle.id, State.RETRYING)

        wait = task.available_at - task.created_at
        assert timedelta(days=1) <= wait < timedelta(days=366)
        (slow,) = await house.queue.slowdowns()
        assert (slow.type, slow.over_at - slow.until) == ("call", timedelta(seconds=600))


async def test_scrapes_tell_of_what_rests(house: House) -> None:
    @house.queue.task("call")
    async def call() -> None:
        raise RateLimited(90)

    async with working(house.queue):
        await call.enqueue()
        await call.options(limit_key="acme").enqueue()
        await until_counts(house, State.RETRYING, 2)
        figures = await gather_queues([Watched("house", house.queue.shard)])

    cells = figures.cells["rqueue_slowdowns"]
    assert cells == {("house", "type"): [1], ("house", "key"): [1]}


async def test_set_aside_too_often_it_fails(server: Any) -> None:
    async with opened(server, max_rate_limit_parks=0) as house:

        @house.queue.task("call", max_attempts=1)
        async def call() -> None:
            raise RateLimited(5)

        async with working(house.queue):
            handle = await call.enqueue()
            task = await settled(house, handle.id, State.DEAD_LETTERED)

        assert (task.attempts, task.parks) == (1, 0)


async def test_where_it_counts_it_is_an_attempt(server: Any) -> None:
    async with opened(server, rate_limit_counts=True) as house:

        @house.queue.task("call")
        async def call() -> None:
            raise RateLimited(50)

        async with working(house.queue):
            handle = await call.enqueue()
            task = await settled(house, handle.id, State.RETRYING)

        assert (task.attempts, task.parks) == (1, 0)
        assert not await house.client.exists(house.keys.slowed())
