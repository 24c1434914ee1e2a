"""Exceptions in `after_` hooks change nothing, and their text is not logged."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rqueue import Context, Middleware, State
from rqueue.log import JsonFormatter
from rqueue.task.attempt.outcome import Completed, Failed
from tests.harness import Harness
from tests.worker.running import ended, until, working

RAISED = [
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    ValueError,
    GeneratorExit,
    BaseException,
]


class Raising(Middleware):
    """Raises after the attempt, with the payload in the text."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        raise self.kind(ctx.task.payload)


@pytest.mark.parametrize("kind", RAISED)
async def test_an_exception_of_a_hook_does_not_change_the_outcome(
    harness: Harness, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    harness.queue.use(Raising(kind))

    @harness.queue.task("pay")
    async def pay(card: str) -> str:
        return "paid"

    async with working(harness.queue) as worker:
        assert await (await pay.enqueue("hush")).result(timeout=10) == "paid"
        assert not worker.executor.failed

    (line,) = [line for line in caplog.records if line.name == "rqueue.middleware"]
    assert line.getMessage() == "after_attempt of Raising failed"
    assert vars(line)["raised"].endswith(kind.__name__)
    assert vars(line)["where"].endswith(" after_attempt")
    assert "hush" not in JsonFormatter().format(line)


async def test_a_cancel_inside_a_hook_does_not_cancel_the_attempt(harness: Harness) -> None:
    class Awaiting(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            inner = asyncio.create_task(asyncio.Event().wait())
            await asyncio.sleep(0)
            inner.cancel()
            await inner

    harness.queue.use(Awaiting())

    @harness.queue.task("job")
    async def job() -> int:
        return 7

    async with working(harness.queue):
        assert await (await job.enqueue()).result(timeout=10) == 7


async def test_an_attempt_that_times_out_in_a_hook_is_ended(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[Any] = []

    class Hanging(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            begun.append(outcome)
            await asyncio.Event().wait()

    harness.queue.use(Hanging())

    @harness.queue.task("job", timeout=0.2, max_attempts=1)
    async def job() -> int:
        return 7

    with caplog.at_level(logging.ERROR, "rqueue.middleware"):
        async with working(harness.queue):
            handle = await job.enqueue()
            await until(lambda: begun)
            dead = await ended(harness.queue, handle.id, State.DEAD_LETTERED)

    assert [record.reason for record in dead.failure_history] == ["timeout"]
    assert caplog.records == []


async def test_a_hook_gets_the_result_as_it_is_stored(harness: Harness) -> None:
    seen: list[Any] = []

    class Seeing(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            seen.append(outcome)

    harness.queue.use(Seeing())

    @harness.queue.task("job")
    async def job() -> tuple[int, str]:
        return 1, "two"

    async with working(harness.queue):
        await (await job.enqueue()).result(timeout=10)

    assert seen == [Completed([1, "two"])]
