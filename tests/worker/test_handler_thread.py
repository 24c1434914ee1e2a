"""Plain handlers in threads: a stopped one runs on, and another thread takes its place."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.errors import TaskCancelled
from rqueue.worker.threads import Threads
from tests.harness import Harness
from tests.worker.running import ended, until, working

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Blocked calls wait for it; set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
async def threads() -> Threads:
    return Threads(max_abandoned=2)


async def abandon(threads: Threads, function: Callable[[], Any]) -> None:
    """Calls a function and cancels the caller when the call has begun."""
    begun = threading.Event()

    def call() -> None:
        begun.set()
        function()

    waiting = asyncio.create_task(threads.run(call))
    await until(begun.is_set)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_thread_is_reused(threads: Threads) -> None:
    names = {await threads.run(threading.get_ident) for _ in range(20)}

    assert len(names) == 1


async def test_there_are_as_many_threads_as_concurrent_calls(threads: Threads) -> None:
    together = threading.Barrier(30)

    await asyncio.gather(*(threads.run(lambda: together.wait(10)) for _ in range(30)))

    assert threads.idle == 30


async def test_an_exception_reaches_the_caller(threads: Threads) -> None:
    def leaves() -> None:
        raise SystemExit(3)

    def is_cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(SystemExit):
        await threads.run(leaves)
    with pytest.raises(asyncio.CancelledError):
        await threads.run(is_cancelled)
    assert (threads.idle, threads.abandoned) == (1, 0)


async def test_a_call_sees_the_context_variables_of_its_caller(threads: Threads) -> None:
    NAME.set("somebody")

    assert await threads.run(NAME.get) == "somebody"


async def test_another_thread_replaces_that_of_a_stopped_call(
    threads: Threads, hold: threading.Event
) -> None:
    await abandon(threads, hold.wait)

    assert await threads.run(lambda: "another") == "another"
    assert threads.abandoned == 1
    hold.set()
    await until(lambda: threads.abandoned == 0)
    assert threads.idle == 2


async def test_above_the_limit_calls_wait_and_it_is_logged_once(
    threads: Threads, hold: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        await abandon(threads, hold.wait)
    ran: list[int] = []
    waiting = [asyncio.create_task(threads.run(partial(ran.append, n))) for n in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()

    assert (threads.abandoned, threads.waiting) == (2, 3)
    assert [line.levelno for line in caplog.records] == [logging.ERROR]
    assert "2 stopped handlers still run" in caplog.text

    hold.set()
    await asyncio.gather(*waiting)
    await until(lambda: threads.idle == 2)
    assert sorted(ran) == [0, 1]
    assert (threads.abandoned, threads.waiting) == (0, 0)


async def test_closed_threads_end(threads: Threads, hold: threading.Event) -> None:
    before = threading.active_count()
    await abandon(threads, hold.wait)
    await threads.run(lambda: None)

    threads.close()
    hold.set()

    await until(lambda: threading.active_count() <= before)


async def test_stuck_handlers_do_not_starve_a_worker(
    harness: Harness, hold: threading.Event
) -> None:
    @harness.queue.task("stuck", timeout=0.2, max_attempts=1)
    def stuck() -> None:
        hold.wait()

    @harness.queue.task("quick")
    def quick() -> str:
        return "done"

    async with working(harness.queue, concurrency=2):
        tasks = [(await stuck.enqueue()).id for _ in range(4)]
        for task in tasks:
            await ended(harness.queue, task, State.DEAD_LETTERED)

        assert await (await quick.enqueue()).result(timeout=10) == "done"


async def test_a_cancelled_handler_sees_its_flag(harness: Harness) -> None:
    begun, stopped = threading.Event(), threading.Event()

    @harness.queue.task("patient")
    def patient(ctx: Context) -> None:
        begun.set()
        while not ctx.cancelled:
            stopped.wait(0.01)
        stopped.set()

    async with working(harness.queue) as worker:
        handle = await patient.enqueue()
        await until(begun.is_set)
        await harness.queue.cancel(handle.id)
        await worker.beat.tick()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=10)
        await until(stopped.is_set)


async def test_a_worker_with_more_slots_runs_more_tasks_immediately(harness: Harness) -> None:
    together = threading.Barrier(5)

    @harness.queue.task("meets")
    def meets() -> int:
        return together.wait(10)

    async with working(harness.queue, concurrency=2) as worker:
        handles = [await meets.enqueue() for _ in range(5)]
        worker.resize(5)

        assert {await one.result(timeout=10) for one in handles} == {0, 1, 2, 3, 4}
