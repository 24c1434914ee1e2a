"""Steps run once in the lifetime of a task, whichever worker runs its attempts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rqueue import Context, Retry, State
from rqueue.core.leases import HeldLease
from rqueue.core.notes import step
from rqueue.errors import TaskDead
from tests.harness import Harness
from tests.worker import functions
from tests.worker.running import ended, until, working


async def again(harness: Harness, task: str) -> None:
    """Runs the next attempt of a task that waits for it."""
    await ended(harness.queue, task, State.RETRYING)
    await harness.make_due(task)
    await harness.promoter.tick()


async def test_a_completed_step_is_not_repeated(harness: Harness) -> None:
    called: list[str] = []

    async def fetch(page: int, *, lang: str) -> tuple[int, str]:
        called.append("fetch")
        return page, lang

    def parse() -> str:
        called.append("parse")
        assert threading.current_thread() is not threading.main_thread()
        return "parsed"

    @harness.queue.task("report")
    async def report(ctx: Context) -> Any:
        found = [await ctx.step("fetch", fetch, 7, lang="en"), await ctx.step("parse", parse)]
        if ctx.attempt == 1:
            assert found == [[7, "en"], "parsed"]
            raise Retry(after=0)
        return [*found, await ctx.step("last", lambda: fetch(8, lang="de"))]

    async with working(harness.queue):
        handle = await report.enqueue()
        await again(harness, handle.id)
        assert await handle.result(timeout=10) == [[7, "en"], "parsed", [8, "de"]]

    assert called == ["fetch", "parse", "fetch"]
    assert (await harness.task(handle.id)).steps == ("fetch", "last", "parse")


async def test_completed_steps_of_a_dead_worker_are_not_repeated(harness: Harness) -> None:
    called: list[str] = []

    @harness.queue.task("report")
    async def report(ctx: Context) -> list[Any]:
        return [await ctx.step(name, noted(called, name)) for name in ("a", "b", "c")]

    lease = await harness.running("report")
    for name in ("a", "b"):
        await step(
            harness.queue._internals.shard, HeldLease(lease.id.ulid, lease.token), name, b'"kept"'
        )
    await harness.age(lease, harness.queue.settings.lease_sec * 2)
    await harness.reaper.tick()
    await harness.promoter.tick()

    async with working(harness.queue):
        await until(lambda: called)
        await ended(harness.queue, lease.id, State.COMPLETED)

    assert called == ["c"]
    assert (await harness.task(lease.id)).result == ["kept", "kept", "c"]


def noted(called: list[str], name: str) -> Callable[[], str]:
    def call() -> str:
        called.append(name)
        return name

    return call


async def test_a_step_that_raises_stores_nothing_and_frees_its_name(harness: Harness) -> None:
    tries: list[int] = []

    async def flaky() -> int:
        tries.append(len(tries))
        if len(tries) < 2:
            raise ConnectionError("unavailable")
        return len(tries)

    @harness.queue.task("report")
    async def report(ctx: Context) -> Any:
        with pytest.raises(ConnectionError):
            await ctx.step("flaky", flaky)
        return await ctx.step("flaky", flaky)

    async with working(harness.queue):
        assert await (await report.enqueue()).result(timeout=10) == 2


async def test_a_step_name_is_used_once_in_an_attempt(harness: Harness) -> None:
    @harness.queue.task("report", max_attempts=1)
    async def report(ctx: Context) -> None:
        for page in range(2):
            await ctx.step("page", lambda page=page: page)

    async with working(harness.queue):
        with pytest.raises(TaskDead, match="step 'page': has already run in this attempt"):
            await (await report.enqueue()).result(timeout=10)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("", 1, "needs a name of one line"),
        ("a\nb", 1, "needs a name of one line"),
        ("x" * 201, 1, "needs a name of one line"),
        ("nan", float("nan"), "step nan"),
        ("odd", object(), "step odd"),
        ("huge", "x" * 300_000, "max_result_bytes"),
    ],
)
async def test_a_result_that_cannot_be_stored_is_refused(
    harness: Harness, name: str, value: object, why: str
) -> None:
    @harness.queue.task("report", max_attempts=1)
    async def report(ctx: Context) -> None:
        await ctx.step(name, lambda: value)

    async with working(harness.queue):
        with pytest.raises(TaskDead, match=why):
            await (await report.enqueue()).result(timeout=10)

    (task,) = [one async for one in harness.queue.find(states=[State.DEAD_LETTERED])]
    assert task.steps == ()


async def test_steps_may_run_concurrently(harness: Harness) -> None:
    both = asyncio.Barrier(2)

    async def meet(n: int) -> int:
        await both.wait()
        return n

    @harness.queue.task("report")
    async def report(ctx: Context) -> Any:
        return await asyncio.gather(*[ctx.step(f"meet-{n}", meet, n) for n in range(2)])

    async with working(harness.queue):
        assert await (await report.enqueue()).result(timeout=10) == [0, 1]


async def test_a_lost_lease_stores_no_step(harness: Harness) -> None:
    begun, release, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow() -> int:
        begun.set()
        try:
            await release.wait()
        finally:
            stopped.set()
        return 1

    @harness.queue.task("report")
    async def report(ctx: Context) -> None:
        await ctx.step("slow", slow)

    async with working(harness.queue):
        handle = await report.enqueue()
        await begun.wait()
        await harness.queue.cancel(handle.id)
        await stopped.wait()

    assert (await harness.task(handle.id)).steps == ()


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_plain_functions_can_run_steps(harness: Harness, kind: Any) -> None:
    harness.queue.task("plain", kind=kind, timeout=20)(functions.steps_by_calls)
    handle = await harness.queue.enqueue("plain", {"n": 3})

    async with working(harness.queue):
        await again(harness, handle.id)
        found: Any = await handle.result(timeout=30)

    first, second, here, there = found
    assert (first, second) == ({"n": 3, "attempt": 1}, {"n": 4, "attempt": 1})
    assert here == there
    assert (await harness.task(handle.id)).steps == ("late", "on a loop", "plain")


async def test_a_coroutine_in_a_process_can_run_steps(harness: Harness) -> None:
    harness.queue.task("async", kind="process", timeout=20)(functions.steps_on_a_loop)
    handle = await harness.queue.enqueue("async", {"n": 3})

    async with working(harness.queue):
        await again(harness, handle.id)
        assert await handle.result(timeout=30) == [3, 1, "step 'same': has already run"]
