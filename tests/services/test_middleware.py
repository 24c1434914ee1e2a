"""Steps of the middleware around attempts and after what a server has written of them."""

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
from rqueue.model.attempt import Completed, Failed
from rqueue.services import aftermath
from tests.house import House
from tests.services.working import ended, until, working

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


class Steps(Middleware):
    """Writes down what it is told, under its name."""

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
    """Keeps what it is told of settles."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[Completed | Failed, State | None]] = {}

    async def after_settle(
        self, ctx: Context, outcome: Completed | Failed, state: State | None
    ) -> None:
        self.told[ctx.id] = (outcome, state)


async def test_the_outermost_comes_first_before_and_last_after(house: House) -> None:
    seen: list[Any] = []
    house.queue.use(Steps("outer", seen), Steps("inner", seen))

    @house.queue.task("job")
    async def job() -> None: ...

    async with working(house.queue):
        await (await job.enqueue()).result(timeout=10)
        await until(lambda: len(seen) == 6)

    assert seen == [
        "outer before 1", "inner before 1", "inner after Completed", "outer after Completed",
        "inner settled Completed COMPLETED", "outer settled Completed COMPLETED",
    ]  # fmt: skip


async def test_a_settle_is_told_when_the_server_has_written_it(house: House) -> None:
    found: list[Any] = []

    class Looking(Middleware):
        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            task = await house.task(ctx.id)
            found.append((task.type, outcome, state, task.state))

    @house.queue.task("good")
    async def good() -> dict[str, int]:
        return {"n": 1}

    @house.queue.task("again")
    async def again() -> None:
        raise Retry(after=3600, reason="later")

    @house.queue.task("dead")
    async def dead() -> None:
        raise Reject("never")

    house.queue.use(Looking())
    async with working(house.queue):
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
async def test_a_settle_that_came_too_late_is_told_as_lost(
    house: House, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, running, go = Settled(), asyncio.Event(), asyncio.Event()

    @house.queue.task("job")
    async def job() -> None:
        running.set()
        await go.wait()
        if fails:
            raise ValueError("failed")

    house.queue.use(steps)
    async with working(house.queue) as worker:
        handle = await job.enqueue()
        await asyncio.wait_for(running.wait(), 10)
        # The news of the cancel does not come in time.
        monkeypatch.setattr(worker, "lose", lambda *_: None)
        await house.queue.cancel(handle.id)
        go.set()
        await until(lambda: handle.id in steps.told)

    outcome, state = steps.told[handle.id]
    assert (isinstance(outcome, Failed), state) == (fails, None)


async def test_an_attempt_whose_lease_is_lost_while_it_runs_is_told_as_lost(house: House) -> None:
    steps, running = Settled(), asyncio.Event()

    @house.queue.task("job")
    async def job() -> None:
        running.set()
        await asyncio.Event().wait()

    house.queue.use(steps)
    async with working(house.queue) as worker:
        handle = await job.enqueue()
        await asyncio.wait_for(running.wait(), 10)
        await house.queue.cancel(handle.id)
        await worker.beat.tick()
        await until(lambda: handle.id in steps.told)

    outcome, state = steps.told[handle.id]
    assert (type(outcome), state) == (Failed, None)


async def test_what_is_given_back_is_not_told(house: House) -> None:
    steps, running = Settled(), asyncio.Event()

    @house.queue.task("job")
    async def job() -> None:
        running.set()
        await asyncio.Event().wait()

    house.queue.use(steps)
    async with working(house.queue) as worker:
        handle = await job.enqueue()
        await asyncio.wait_for(running.wait(), 10)

    assert (await house.task(handle.id)).state is State.READY
    assert (steps.told, worker.desk.aftermath.ended) == ({}, {})


async def test_a_task_acknowledged_before_it_runs_is_told_after_it_ran(house: House) -> None:
    steps = Settled()

    @house.queue.task("once", ack="before")
    async def once() -> None:
        raise ValueError("too late to try again")

    house.queue.use(steps)
    async with working(house.queue):
        handle = await once.enqueue()
        await until(lambda: handle.id in steps.told)

    outcome, state = steps.told[handle.id]
    assert (type(outcome), state) == (Failed, State.COMPLETED)


async def test_what_is_raised_after_an_attempt_is_logged_and_changes_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    class Failing(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            raise SystemExit("after the attempt")

        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            raise SystemExit("after the settle")

    @house.queue.task("job")
    async def job() -> int:
        return 7

    house.queue.use(Steps("outer", seen), Failing())
    with caplog.at_level(logging.ERROR):
        async with working(house.queue):
            assert await (await job.enqueue()).result(timeout=10) == 7
            await until(lambda: len(seen) == 3)
            assert await (await job.enqueue()).result(timeout=10) == 7

    assert seen[:3] == ["outer before 1", "outer after Completed",
                        "outer settled Completed COMPLETED"]  # fmt: skip
    assert "after_attempt of Failing failed" in caplog.text
    assert "after_settle of Failing failed" in caplog.text


async def test_what_is_raised_before_an_attempt_fails_it(house: House) -> None:
    class Closed(Middleware):
        async def before_attempt(self, ctx: Context) -> None:
            raise Reject("not on Sundays")

    ran: list[int] = []

    @house.queue.task("job")
    async def job() -> None:
        ran.append(1)

    house.queue.use(Closed())
    async with working(house.queue):
        handle = await job.enqueue()
        task = await ended(house.queue, handle.id, State.DEAD_LETTERED)

    assert (ran, task.last_error) == ([], "not on Sundays")


async def test_steps_that_hang_do_not_hold_the_worker(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(aftermath, "PATIENCE_SEC", 0.2)

    class Hanging(Middleware):
        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            await asyncio.Event().wait()

    @house.queue.task("job")
    async def job() -> int:
        return 7

    house.queue.use(Hanging())
    async with working(house.queue, concurrency=1) as worker:
        for _ in range(3):
            assert await (await job.enqueue()).result(timeout=10) == 7
        worker.drain()

    assert not worker.desk.aftermath.telling
    assert "longer than 0.2 s" in caplog.text


async def test_a_drained_worker_has_told_all(house: House) -> None:
    steps, go = Settled(), asyncio.Event()

    class Slow(Settled):
        async def after_settle(
            self, ctx: Context, outcome: Completed | Failed, state: State | None
        ) -> None:
            await go.wait()
            await super().after_settle(ctx, outcome, state)

    slow = Slow()

    @house.queue.task("job")
    async def job(n: int) -> None: ...

    house.queue.use(steps, slow)
    handles = await house.queue.enqueue_many([job.call(n) for n in range(50)])
    worker = house.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    for handle in handles:
        await handle.result(timeout=10)
    worker.drain()
    await until(lambda: not worker.held)
    assert slow.told == {}
    go.set()
    await asyncio.wait_for(running, 10)

    assert set(slow.told) == set(steps.told) == {handle.id for handle in handles}
    assert worker.desk.aftermath.ended == {}


async def test_what_is_sent_along_with_a_submit_is_there_in_each_attempt(house: House) -> None:
    seen: list[Any] = []

    class Tracing(Middleware):
        async def before_submit(self, call: Call) -> Call | None:
            return call.with_headers({"traceparent": "00-abc-01"})

        async def before_attempt(self, ctx: Context) -> None:
            seen.append((ctx.attempt, ctx.task.spec.headers["traceparent"]))

    @house.queue.task("job")
    async def job(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Retry(after=0)

    house.queue.use(Tracing())
    async with working(house.queue):
        handle = await job.enqueue()
        await ended(house.queue, handle.id, State.RETRYING)
        await house.promoter.tick()
        await handle.result(timeout=10)

    assert seen == [(1, "00-abc-01"), (2, "00-abc-01")]


async def test_handlers_see_the_context_variables_of_the_steps(house: House) -> None:
    class Naming(Middleware):
        async def before_attempt(self, ctx: Context) -> None:
            NAME.set(f"attempt {ctx.attempt}")

    @house.queue.task("on_loop")
    async def on_loop() -> str:
        return NAME.get()

    @house.queue.task("in_thread")
    def in_thread() -> str:
        return NAME.get()

    house.queue.use(Naming())
    async with working(house.queue):
        for function in (on_loop, in_thread):
            assert await (await function.enqueue()).result(timeout=10) == "attempt 1"

    assert NAME.get() == "nobody"


async def test_a_lifespan_is_a_generator_or_a_context_manager(house: House) -> None:
    seen: list[Any] = []

    @house.queue.lifespan
    async def database(state: dict[str, Any]) -> AsyncIterator[None]:
        state["db"] = "open"
        yield
        seen.append("database closed")

    @house.queue.lifespan
    @asynccontextmanager
    async def model(state: dict[str, Any]) -> AsyncIterator[None]:
        state["model"] = f"made with {state['db']}"
        yield
        seen.append("model closed")

    @house.queue.task("job")
    async def job(ctx: Context) -> str:
        return str(ctx.state["model"])

    async with working(house.queue):
        assert await (await job.enqueue()).result(timeout=10) == "made with open"

    assert seen == ["model closed", "database closed"]


def test_a_lifespan_without_a_yield_is_told_where_it_stands() -> None:
    queue = Queue("q", url="redis://localhost:1")

    with pytest.raises(ConfigError, match=r"lifespan opened: has no yield"):

        @queue.lifespan  # type: ignore[type-var]
        async def opened(state: dict[str, Any]) -> None: ...
