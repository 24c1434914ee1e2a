"""What steps raise after the fact changes nothing, and no line repeats its text."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rqueue import Context, Middleware, State
from rqueue.logs import Json
from rqueue.model.attempt import Completed, Failed
from tests.house import House
from tests.services.working import ended, until, working

RAISED = [
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    ValueError,
    GeneratorExit,
    BaseException,
]


class Raising(Middleware):
    """Raises after the attempt, with what the task brought along in the text."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        raise self.kind(ctx.task.payload)


@pytest.mark.parametrize("kind", RAISED)
async def test_a_finished_task_stays_finished_whatever_a_step_raises(
    house: House, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    house.queue.use(Raising(kind))

    @house.queue.task("pay")
    async def pay(card: str) -> str:
        return "paid"

    async with working(house.queue) as worker:
        assert await (await pay.enqueue("hush")).result(timeout=10) == "paid"
        assert not worker.desk.failed

    (line,) = [line for line in caplog.records if line.name == "rqueue.hooks"]
    assert line.getMessage() == "after_attempt of Raising failed"
    assert vars(line)["raised"].endswith(kind.__name__)
    assert vars(line)["where"].endswith(" after_attempt")
    assert "hush" not in Json().format(line)


async def test_a_cancel_of_what_a_step_awaits_is_not_the_attempts(house: House) -> None:
    class Awaiting(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            inner = asyncio.create_task(asyncio.Event().wait())
            await asyncio.sleep(0)
            inner.cancel()
            await inner

    house.queue.use(Awaiting())

    @house.queue.task("job")
    async def job() -> int:
        return 7

    async with working(house.queue):
        assert await (await job.enqueue()).result(timeout=10) == 7


async def test_an_attempt_whose_time_is_up_within_a_step_is_ended(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[Any] = []

    class Hanging(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            begun.append(outcome)
            await asyncio.Event().wait()

    house.queue.use(Hanging())

    @house.queue.task("job", timeout=0.2, max_attempts=1)
    async def job() -> int:
        return 7

    with caplog.at_level(logging.ERROR, "rqueue.hooks"):
        async with working(house.queue):
            handle = await job.enqueue()
            await until(lambda: begun)
            dead = await ended(house.queue, handle.id, State.DEAD_LETTERED)

    assert [record.reason for record in dead.failure_history] == ["timeout"]
    assert caplog.records == []


async def test_a_step_sees_the_result_as_it_is_written(house: House) -> None:
    seen: list[Any] = []

    class Seeing(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
            seen.append(outcome)

    house.queue.use(Seeing())

    @house.queue.task("job")
    async def job() -> tuple[int, str]:
        return 1, "two"

    async with working(house.queue):
        await (await job.enqueue()).result(timeout=10)

    assert seen == [Completed([1, "two"])]
