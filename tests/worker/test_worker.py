"""A worker runs what is enqueued, and nothing a handler does ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Middleware, Retry, RetryPolicy, State, depends
from rqueue.errors import Reject, TaskDead
from rqueue.task.attempt.outcome import Completed, Failed
from rqueue.worker.context import Context
from tests.harness import Harness
from tests.worker.running import ended, until, until_counts, working


async def test_a_worker_runs_tasks_with_their_arguments_and_stores_their_results(
    harness: Harness,
) -> None:
    @harness.queue.task("add")
    async def add(ctx: Context, a: int, b: int = 1) -> int:
        return a + b

    handles = [await add.enqueue(1), await add.enqueue(2, b=3)]

    async with working(harness.queue):
        assert [await handle.result(timeout=10) for handle in handles] == [2, 5]


async def test_new_tasks_are_delivered_to_an_idle_worker(harness: Harness) -> None:
    @harness.queue.task("echo")
    async def echo(text: str) -> str:
        return text

    async with working(harness.queue) as worker:
        await until(lambda: worker.waiting_claim.waiting)
        assert await (await echo.enqueue("a")).result(timeout=10) == "a"
        assert await (await echo.enqueue("b")).result(timeout=10) == "b"


async def test_a_plain_function_runs_in_a_thread(harness: Harness) -> None:
    @harness.queue.task("where")
    def where() -> str:
        return threading.current_thread().name

    async with working(harness.queue):
        handle = await where.enqueue()
        assert await handle.result(timeout=10) != threading.main_thread().name


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        RecursionError("deep"),
        asyncio.CancelledError(),
        MemoryError(),
        ValueError("x" * 1_000_000),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_exception_of_a_handler_fails_its_attempt_and_not_the_worker(
    harness: Harness, error: BaseException
) -> None:
    @harness.queue.task("bad", max_attempts=1)
    async def bad() -> None:
        raise error

    @harness.queue.task("good")
    async def good() -> str:
        return "fine"

    async with working(harness.queue):
        task = (await bad.enqueue()).id
        found = await ended(harness.queue, task, State.DEAD_LETTERED)
        assert await (await good.enqueue()).result(timeout=10) == "fine"

    assert len(found.failure_history) == found.attempts == 1
    assert len(found.last_error) <= 8192


async def test_a_handler_can_request_a_retry_or_reject(harness: Harness) -> None:
    @harness.queue.task("again", retry=RetryPolicy.fixed(3600))
    async def again(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise Retry(after=0)
        return ctx.attempt

    @harness.queue.task("never")
    async def never() -> None:
        raise Reject("hopeless")

    async with working(harness.queue):
        once = await again.enqueue()
        await ended(harness.queue, once.id, State.RETRYING)
        await harness.promoter.tick()
        assert await once.result(timeout=10) == 2
        with pytest.raises(TaskDead, match="hopeless"):
            await (await never.enqueue()).result(timeout=10)


async def test_a_task_with_invalid_arguments_is_dead_immediately(harness: Harness) -> None:
    @harness.queue.task("typed")
    async def typed(n: int) -> None: ...

    async with working(harness.queue):
        handle = await harness.queue.enqueue("typed", {"n": "many"})
        with pytest.raises(TaskDead, match=r"arguments\.n"):
            await handle.result(timeout=10)


async def test_a_result_of_another_type_fails_the_attempt(harness: Harness) -> None:
    @harness.queue.task("lies", max_attempts=1)
    async def lies() -> int:
        return "text"  # type: ignore[return-value]

    async with working(harness.queue):
        with pytest.raises(TaskDead, match="promises"):
            await (await lies.enqueue()).result(timeout=10)


async def test_an_attempt_that_exceeds_its_timeout_is_stopped(harness: Harness) -> None:
    stopped = asyncio.Event()

    @harness.queue.task("slow", timeout=0.2, max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(harness.queue):
        task = (await slow.enqueue()).id
        found = await ended(harness.queue, task, State.DEAD_LETTERED)

    assert stopped.is_set()
    assert found.failure_reason == "timeout"


async def test_long_tasks_are_not_prefetched(harness: Harness) -> None:
    hold = asyncio.Event()

    @harness.queue.task("long")
    async def long() -> None:
        await hold.wait()

    handles = await harness.queue.enqueue_many([long.call() for _ in range(6)])
    async with working(harness.queue, concurrency=2) as worker:
        await until(lambda: len(worker.slots.running) == 2)
        counts = await harness.queue.counts()
        hold.set()
        for handle in handles:
            await handle.result(timeout=10)

    assert (counts[State.RUNNING], counts[State.READY]) == (2, 4)


async def test_many_short_tasks_are_all_run_once(harness: Harness) -> None:
    seen: list[int] = []

    @harness.queue.task("short")
    async def short(n: int) -> None:
        seen.append(n)

    await harness.queue.enqueue_many([short.call(n) for n in range(1000)])
    async with working(harness.queue):
        await until(lambda: len(seen) >= 1000)
        await until_counts(harness, State.COMPLETED, 1000)

    assert sorted(seen) == list(range(1000))


async def test_a_draining_worker_finishes_its_tasks_and_claims_no_more(harness: Harness) -> None:
    hold = asyncio.Event()

    @harness.queue.task("held")
    async def held() -> str:
        await hold.wait()
        return "done"

    first, second = await held.enqueue(), await held.enqueue()
    worker = harness.queue.worker(concurrency=1)
    running = asyncio.create_task(worker.run())
    await until(lambda: len(worker.slots.running) == 1)

    worker.drain()
    hold.set()
    await asyncio.wait_for(running, 10)

    assert await first.result(timeout=1) == "done"
    assert await second.status() is State.READY


async def test_a_worker_that_stops_releases_its_tasks_without_an_attempt(harness: Harness) -> None:
    @harness.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    handle = await held.enqueue()
    async with working(harness.queue) as worker:
        await until(lambda: len(worker.slots.running) == 1)

    task = await harness.task(handle.id)
    assert (task.state, task.attempts) == (State.READY, 0)


async def test_a_task_that_is_cancelled_while_it_runs_is_stopped(harness: Harness) -> None:
    stopped = asyncio.Event()

    @harness.queue.task("held")
    async def held() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(harness.queue) as worker:
        handle = await held.enqueue()
        await until(lambda: len(worker.slots.running) == 1)
        await harness.queue.cancel(handle.id)
        await worker.beat.tick()
        await asyncio.wait_for(stopped.wait(), 10)
        await until(lambda: not worker.held)


async def test_a_task_acknowledged_before_it_runs_is_never_run_again(harness: Harness) -> None:
    states: list[State] = []

    @harness.queue.task("once", ack="before")
    async def once(ctx: Context) -> None:
        states.append((await harness.queue.get(ctx.id)).state)
        raise ValueError("too late to try again")

    async with working(harness.queue) as worker:
        handle = await once.enqueue()
        await handle.result(timeout=10)
        await until(lambda: states and not worker.held)

    task = await harness.task(handle.id)
    assert states == [State.COMPLETED]
    assert (task.state, task.attempts) == (State.COMPLETED, 0)


async def test_middleware_dependencies_and_lifespans_run_around_the_handler(
    harness: Harness,
) -> None:
    seen: list[str] = []

    class Steps(Middleware):
        async def before_attempt(self, ctx: Context) -> None:
            seen.append("before")

        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            seen.append(f"after {outcome}")
            raise ValueError("changes nothing")

    @asynccontextmanager
    async def opened(state: dict[str, Any]) -> AsyncIterator[None]:
        state["unit"] = "EUR"
        yield
        seen.append("closed")

    async def unit(ctx: Context) -> AsyncIterator[str]:
        yield ctx.state["unit"]
        seen.append("given back")

    @harness.queue.task("price")
    async def price(n: int, unit: str = depends(unit)) -> str:
        seen.append("run")
        return f"{n} {unit}"

    harness.queue._internals.hooks.middleware.append(Steps())
    harness.queue._internals.hooks.lifespans.append(opened)
    async with working(harness.queue):
        assert await (await price.enqueue(3)).result(timeout=10) == "3 EUR"

    assert seen == ["before", "run", "given back", "after Completed(result='3 EUR')", "closed"]
