"""Middleware hooks around attempts and after their settle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from rqueue import Call, Context, Middleware, Queue, Reject, Retry, State
from rqueue.errors import ConfigError
from rqueue.task.attempt.outcome import Completed, Failed
from rqueue.worker import settle
from tests.harness import Harness
from tests.worker.running import ended, until, working

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


class Steps(Middleware):
    """Records its calls under its name."""

    def __init__(self, name: str, seen: list[Any]) -> None:
        self.name = name
        self.seen = seen

    async def before_attempt(self, ctx: Context) -> None:
        self.seen.append(f"{self.name} before {ctx.attempt}")

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        self.seen.append(f"{self.name} after {type(outcome).__name__}")

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        self.seen.append(f"{self.name} settled {type(outcome).__name__} {state}")


class Settled(Middleware):
    """Records the calls after a settle."""

    def __init__(self) -> None:
        self.settled: dict[str, tuple[Completed | Failed, State | None]] = {}

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        self.settled[ctx.id] = (outcome, state)


async def test_the_first_middleware_runs_first_before_and_last_after(harness: Harness) -> None:
    seen: list[Any] = []
    harness.queue.use(Steps("outer", seen), Steps("inner", seen))

    @harness.queue.task("job")
    async def job() -> None: ...

    async with working(harness.queue):
        await (await job.enqueue()).result(timeout=10)
        await until(lambda: len(seen) == 6)

    assert seen == [
        "outer before 1", "inner before 1", "inner after Completed", "outer after Completed",
        "inner settled Completed COMPLETED", "outer settled Completed COMPLETED",
    ]  # fmt: skip


async def test_after_settle_runs_when_redis_has_confirmed_the_settle(harness: Harness) -> None:
    found: list[Any] = []

    class Looking(Middleware):
        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            task = await harness.task(ctx.id)
            found.append((task.type, outcome, state, task.state))

    @harness.queue.task("good")
    async def good() -> dict[str, int]:
        return {"n": 1}

    @harness.queue.task("again")
    async def again() -> None:
        raise Retry(after=3600, reason="later")

    @harness.queue.task("dead")
    async def dead() -> None:
        raise Reject("never")

    harness.queue.use(Looking())
    async with working(harness.queue):
        for function in (good, again, dead):
            await function.enqueue()
        await until(lambda: len(found) == 3)

    stories = {type: (state, stored) for type, _, state, stored in found}
    outcomes = {type: outcome for type, outcome, _, _ in found}
    assert stories == {
        "good": (State.COMPLETED, State.COMPLETED),
        "again": (State.RETRYING, State.RETRYING),
        "dead": (State.DEAD_LETTERED, State.DEAD_LETTERED),
    }
    assert outcomes["good"] == Completed({"n": 1})
    assert (outcomes["again"].message, outcomes["dead"].message) == ("later", "never")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_late_settle_is_reported_as_lost(
    harness: Harness, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, running, go = Settled(), asyncio.Event(), asyncio.Event()

    @harness.queue.task("job")
    async def job() -> None:
        running.set()
        await go.wait()
        if fails:
            raise ValueError("failed")

    harness.queue.use(steps)
    async with working(harness.queue) as worker:
        handle = await job.enqueue()
        await asyncio.wait_for(running.wait(), 10)
        # The worker does not learn of the cancel in time.
        monkeypatch.setattr(worker, "lose", lambda *_: None)
        await harness.queue.cancel(handle.id)
        go.set()
        await until(lambda: handle.id in steps.settled)

    outcome, state = steps.settled[handle.id]
    assert (isinstance(outcome, Failed), state) == (fails, None)


async def test_an_attempt_whose_lease_is_lost_while_it_runs_is_reported_as_lost(
    harness: Harness,
) -> None:
    steps, running = Settled(), asyncio.Event()

    @harness.queue.task("job")
    async def job() -> None:
        running.set()
        await asyncio.Event().wait()

    harness.queue.use(steps)
    async with working(harness.queue) as worker:
        handle = await job.enqueue()
        await asyncio.wait_for(running.wait(), 10)
        await harness.queue.cancel(handle.id)
        await worker.beat.tick()
        await until(lambda: handle.id in steps.settled)

    outcome, state = steps.settled[handle.id]
    assert (type(outcome), state) == (Failed, None)


async def test_a_released_task_runs_no_hook(harness: Harness) -> None:
    steps, running = Settled(), asyncio.Event()

    @harness.queue.task("job")
    async def job() -> None:
        running.set()
        await asyncio.Event().wait()

    harness.queue.use(steps)
    async with working(harness.queue) as worker:
        handle = await job.enqueue()
        await asyncio.wait_for(running.wait(), 10)

    assert (await harness.task(handle.id)).state is State.READY
    assert (steps.settled, worker.executor.settle_hooks.ended) == ({}, {})


async def test_after_settle_of_a_task_acknowledged_before_runs_after_its_handler(
    harness: Harness,
) -> None:
    steps = Settled()

    @harness.queue.task("once", ack="before")
    async def once() -> None:
        raise ValueError("too late to try again")

    harness.queue.use(steps)
    async with working(harness.queue):
        handle = await once.enqueue()
        await until(lambda: handle.id in steps.settled)

    outcome, state = steps.settled[handle.id]
    assert (type(outcome), state) == (Failed, State.COMPLETED)


async def test_an_exception_after_an_attempt_is_logged_and_changes_nothing(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    class Failing(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            raise SystemExit("after the attempt")

        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            raise SystemExit("after the settle")

    @harness.queue.task("job")
    async def job() -> int:
        return 7

    harness.queue.use(Steps("outer", seen), Failing())
    with caplog.at_level(logging.ERROR):
        async with working(harness.queue):
            assert await (await job.enqueue()).result(timeout=10) == 7
            await until(lambda: len(seen) == 3)
            assert await (await job.enqueue()).result(timeout=10) == 7

    assert seen[:3] == ["outer before 1", "outer after Completed",
                        "outer settled Completed COMPLETED"]  # fmt: skip
    assert "after_attempt of Failing failed" in caplog.text
    assert "after_settle of Failing failed" in caplog.text


async def test_an_exception_before_an_attempt_fails_it(harness: Harness) -> None:
    class Closed(Middleware):
        async def before_attempt(self, ctx: Context) -> None:
            raise Reject("not on Sundays")

    ran: list[int] = []

    @harness.queue.task("job")
    async def job() -> None:
        ran.append(1)

    harness.queue.use(Closed())
    async with working(harness.queue):
        handle = await job.enqueue()
        task = await ended(harness.queue, handle.id, State.DEAD_LETTERED)

    assert (ran, task.last_error) == ([], "not on Sundays")


async def test_hooks_that_hang_do_not_delay_the_worker(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settle, "HOOKS_SEC", 0.2)

    class Hanging(Middleware):
        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            await asyncio.Event().wait()

    @harness.queue.task("job")
    async def job() -> int:
        return 7

    harness.queue.use(Hanging())
    async with working(harness.queue, concurrency=1) as worker:
        for _ in range(3):
            assert await (await job.enqueue()).result(timeout=10) == 7
        worker.drain()

    assert not worker.executor.settle_hooks.pending
    assert "longer than 0.2 s" in caplog.text


async def test_a_drained_worker_has_run_all_hooks(harness: Harness) -> None:
    steps, go = Settled(), asyncio.Event()

    class Slow(Settled):
        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            await go.wait()
            await super().after_settle(ctx, outcome, state)

    slow = Slow()

    @harness.queue.task("job")
    async def job(n: int) -> None: ...

    harness.queue.use(steps, slow)
    handles = await harness.queue.enqueue_many([job.call(n) for n in range(50)])
    worker = harness.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    for handle in handles:
        await handle.result(timeout=10)
    worker.drain()
    await until(lambda: not worker.held)
    assert slow.settled == {}
    go.set()
    await asyncio.wait_for(running, 10)

    assert set(slow.settled) == set(steps.settled) == {handle.id for handle in handles}
    assert worker.executor.settle_hooks.ended == {}


async def test_headers_set_at_submit_reach_each_attempt(harness: Harness) -> None:
    seen: list[Any] = []

    class Tracing(Middleware):
        async def before_submit(self, call: Call) -> Call | None:
            return call.with_headers({"traceparent": "00-abc-01"})

        async def before_attempt(self, ctx: Context) -> None:
            seen.append((ctx.attempt, ctx.task.spec.headers["traceparent"]))

    @harness.queue.task("job")
    async def job(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Retry(after=0)

    harness.queue.use(Tracing())
    async with working(harness.queue):
        handle = await job.enqueue()
        await ended(harness.queue, handle.id, State.RETRYING)
        await harness.promoter.tick()
        await handle.result(timeout=10)

    assert seen == [(1, "00-abc-01"), (2, "00-abc-01")]


async def test_handlers_see_the_context_variables_of_hooks(harness: Harness) -> None:
    class Naming(Middleware):
        async def before_attempt(self, ctx: Context) -> None:
            NAME.set(f"attempt {ctx.attempt}")

    @harness.queue.task("on_loop")
    async def on_loop() -> str:
        return NAME.get()

    @harness.queue.task("in_thread")
    def in_thread() -> str:
        return NAME.get()

    harness.queue.use(Naming())
    async with working(harness.queue):
        for function in (on_loop, in_thread):
            assert await (await function.enqueue()).result(timeout=10) == "attempt 1"

    assert NAME.get() == "nobody"


async def test_a_lifespan_is_a_generator_or_a_context_manager(harness: Harness) -> None:
    seen: list[Any] = []

    @harness.queue.lifespan
    async def database(state: dict[str, Any]) -> AsyncIterator[None]:
        state["db"] = "open"
        yield
        seen.append("database closed")

    @harness.queue.lifespan
    @asynccontextmanager
    async def model(state: dict[str, Any]) -> AsyncIterator[None]:
        state["model"] = f"made with {state['db']}"
        yield
        seen.append("model closed")

    @harness.queue.task("job")
    async def job(ctx: Context) -> str:
        return str(ctx.state["model"])

    async with working(harness.queue):
        assert await (await job.enqueue()).result(timeout=10) == "made with open"

    assert seen == ["model closed", "database closed"]


def test_a_lifespan_without_a_yield_is_refused_at_registration() -> None:
    queue = Queue("q", url="redis://localhost:1")

    with pytest.raises(ConfigError, match=r"lifespan opened: must have a yield"):

        @queue.lifespan  # type: ignore[type-var]
        async def opened(state: dict[str, Any]) -> None: ...
