"""The context calls of plain functions, over the connections of their worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Context, Retry, State
from rqueue.errors import ConfigError, LeaseLost, TaskDead
from tests.harness import Harness
from tests.worker import functions
from tests.worker.running import ended, until, working


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_a_plain_function_can_make_all_context_calls(harness: Harness, kind: Any) -> None:
    harness.queue.task("plain", kind=kind, timeout=20)(functions.reports_blocking)
    handle = await harness.queue.enqueue("plain", {"n": 3})

    async with working(harness.queue):
        found = await handle.result(timeout=30)

    task = await harness.task(handle.id)
    assert found == {"before": None, "after": {"at": 3}, "failures": 0}
    assert (task.progress, task.checkpoint) == ({"n": 3}, {"at": 3})
    assert (task.cost_usd, task.logs) == (0.5, ("a line",))


async def test_many_calls_share_the_connections_of_the_worker(harness: Harness) -> None:
    @harness.queue.task("plain")
    def plain(ctx: Context, n: int) -> None:
        for at in range(n):
            ctx.sync.progress(at)

    async with working(harness.queue):
        await (await plain.enqueue(1)).result(timeout=10)
        before = (await harness.client.info("stats"))["total_connections_received"]
        await (await plain.enqueue(200)).result(timeout=20)
        after = (await harness.client.info("stats"))["total_connections_received"]

    # A heartbeat beside a call may open another one.
    assert after - before < 5


async def test_a_plain_function_can_extend_its_timeout(harness: Harness) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    @harness.queue.task("slow", timeout=0.3, max_attempts=1)
    def slow(ctx: Context) -> str:
        ctx.sync.extend(60)
        asyncio.run_coroutine_threadsafe(over.wait(), loop).result()
        return "in time"

    async with working(harness.queue) as worker:
        handle = await slow.enqueue()
        await until(lambda: any(one.ctx and one.ctx.extended_sec for one in running(worker)))
        (one,) = running(worker)
        assert one.ends_at - one.began > 60
        over.set()
        assert await handle.result(timeout=10) == "in time"


def running(worker: Any) -> list[Any]:
    return list(worker.slots.running.values())


async def test_a_lost_lease_is_raised_in_a_plain_function(harness: Harness) -> None:
    begun, seen = asyncio.Event(), list[Any]()
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    @harness.queue.task("plain")
    def plain(ctx: Context) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        try:
            ctx.sync.progress("late")
        except LeaseLost as error:
            seen.append(error.task)

    async with working(harness.queue):
        handle = await plain.enqueue()
        await begun.wait()
        await harness.queue.cancel(handle.id)
        release.set()
        await until(lambda: seen)

    assert seen == [handle.id]


@pytest.mark.parametrize("kind", ["async", "process"])
async def test_a_blocking_call_in_a_coroutine_is_refused(harness: Harness, kind: Any) -> None:
    harness.queue.task("odd", kind=kind, max_attempts=1)(functions.calls_on_a_loop)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("odd", max_attempts=1)
        with pytest.raises(TaskDead, match=r"ctx\.sync: is for plain functions"):
            await handle.result(timeout=30)


async def test_the_next_attempt_gets_a_checkpoint_stored_by_a_blocking_call(
    harness: Harness,
) -> None:
    @harness.queue.task("plain")
    def plain(ctx: Context) -> Any:
        if ctx.attempt == 1:
            ctx.sync.checkpoint([1, 2])
            raise Retry(after=0)
        return [ctx.sync.last_checkpoint(), len(ctx.sync.failures())]

    async with working(harness.queue):
        handle = await plain.enqueue()
        await ended(harness.queue, handle.id, State.RETRYING)
        await harness.make_due(handle.id)
        await harness.promoter.tick()
        assert await handle.result(timeout=10) == [[1, 2], 1]


async def test_a_blocking_call_without_a_worker_is_refused() -> None:
    ctx = Context("1:x", odd(None), worker="w1", state={})
    ctx.loop = asyncio.new_event_loop()
    ctx.loop.close()

    with pytest.raises(ConfigError, match="while their worker runs"):
        await asyncio.to_thread(ctx.sync.progress, 1)


def odd(value: Any) -> Any:
    return value
