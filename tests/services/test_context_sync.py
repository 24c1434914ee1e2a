"""What plain functions say of their attempts, over the connections that their worker has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Context, Retry, State
from rqueue.errors import ConfigError, LeaseLost, TaskDead
from tests.house import House
from tests.services import kinds
from tests.services.working import ended, until, working


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_a_plain_function_says_all_that_a_coroutine_can(house: House, kind: Any) -> None:
    house.queue.task("plain", kind=kind, timeout=20)(kinds.speaks_by_calls)
    handle = await house.queue.enqueue("plain", {"n": 3})

    async with working(house.queue):
        found = await handle.result(timeout=30)

    task = await house.task(handle.id)
    assert found == {"before": None, "after": {"at": 3}, "failures": 0}
    assert (task.progress, task.checkpoint) == ({"n": 3}, {"at": 3})
    assert (task.cost_usd, task.logs) == (0.5, ("a line",))


async def test_many_calls_open_no_connection(house: House) -> None:
    @house.queue.task("plain")
    def plain(ctx: Context, n: int) -> None:
        for at in range(n):
            ctx.sync.progress(at)

    async with working(house.queue):
        await (await plain.enqueue(1)).result(timeout=10)
        before = len(await house.client.client_list())
        await (await plain.enqueue(200)).result(timeout=20)
        after = len(await house.client.client_list())

    assert after <= before


async def test_it_gets_the_time_it_asks_for(house: House) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    @house.queue.task("slow", timeout=0.3, max_attempts=1)
    def slow(ctx: Context) -> str:
        ctx.sync.extend(60)
        asyncio.run_coroutine_threadsafe(over.wait(), loop).result()
        return "in time"

    async with working(house.queue) as worker:
        handle = await slow.enqueue()
        await until(lambda: any(one.ctx and one.ctx.extended_sec for one in running(worker)))
        (one,) = running(worker)
        assert one.ends_at - one.began > 60
        over.set()
        assert await handle.result(timeout=10) == "in time"


def running(worker: Any) -> list[Any]:
    return list(worker.slots.running.values())


async def test_a_lost_lease_is_told_to_a_plain_function(house: House) -> None:
    seen: list[Any] = []
    goes = asyncio.Event()
    loop = asyncio.get_running_loop()

    @house.queue.task("plain")
    def plain(ctx: Context) -> None:
        asyncio.run_coroutine_threadsafe(goes.wait(), loop).result()
        try:
            ctx.sync.progress("late")
        except LeaseLost as error:
            seen.append(error.task)

    async with working(house.queue) as worker:
        handle = await plain.enqueue()
        await until(lambda: worker.slots.running)
        await house.queue.cancel(handle.id)
        goes.set()
        await until(lambda: seen)

    assert seen == [handle.id]


@pytest.mark.parametrize("kind", ["async", "process"])
async def test_a_coroutine_is_told_to_await_instead(house: House, kind: Any) -> None:
    house.queue.task("odd", kind=kind, max_attempts=1)(kinds.calls_on_a_loop)

    async with working(house.queue):
        handle = await house.queue.enqueue("odd", max_attempts=1)
        with pytest.raises(TaskDead, match=r"ctx\.sync: is for plain functions"):
            await handle.result(timeout=30)


async def test_a_checkpoint_by_a_call_is_there_in_the_next_attempt(house: House) -> None:
    @house.queue.task("plain")
    def plain(ctx: Context) -> Any:
        if ctx.attempt == 1:
            ctx.sync.checkpoint([1, 2])
            raise Retry(after=0)
        return [ctx.sync.last_checkpoint(), len(ctx.sync.failures())]

    async with working(house.queue):
        handle = await plain.enqueue()
        await ended(house.queue, handle.id, State.RETRYING)
        await house.make_due(handle.id)
        await house.promoter.tick()
        assert await handle.result(timeout=10) == [[1, 2], 1]


async def test_when_the_worker_is_gone_it_is_told() -> None:
    ctx = Context("1:x", odd(None), worker="w1", state={})
    ctx.loop = asyncio.new_event_loop()
    ctx.loop.close()

    with pytest.raises(ConfigError, match="while their worker runs"):
        await asyncio.to_thread(ctx.sync.progress, 1)


def odd(value: Any) -> Any:
    return value
