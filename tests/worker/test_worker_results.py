"""What handlers may not return, raise or set: it fails their attempt, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rqueue import Context, Middleware, State, depends
from rqueue.errors import ConfigError
from rqueue.task.attempt.outcome import Completed, Failed
from rqueue.worker.handler import Kind
from tests.harness import Harness
from tests.worker.running import ended, until, working


def counts() -> Any:
    return itertools.count()


def few() -> Any:
    return (number for number in range(3))


def numbers() -> list[int]:
    return iter([1, 2])  # type: ignore[return-value]


async def counts_on_a_loop() -> Any:
    return itertools.count()


async def streams() -> Any:
    async def stream() -> AsyncIterator[int]:
        yield 1

    return stream()


ITERATORS: list[tuple[Kind, Callable[[], Any]]] = [
    ("thread", counts),
    ("thread", few),
    ("thread", numbers),
    ("async", counts_on_a_loop),
    ("async", streams),
    ("process", counts),
    ("process", counts_on_a_loop),
]


@pytest.mark.parametrize(("kind", "function"), ITERATORS)
async def test_an_iterator_is_not_a_result(
    harness: Harness, kind: Kind, function: Callable[[], Any]
) -> None:
    harness.queue.task("gives", kind=kind, max_attempts=1)(function)

    async with working(harness.queue, concurrency=1):
        handle = await harness.queue.enqueue("gives", max_attempts=1)
        task = await ended(harness.queue, handle.id, State.DEAD_LETTERED)

    (record,) = task.failure_history
    assert record.reason == "invalid_output"
    assert record.error.startswith("result: is a ")
    assert record.error.endswith(": return a list")


class Awaiting(Middleware):
    """A hook that takes a moment."""

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        await asyncio.sleep(0)


async def resource() -> AsyncIterator[int]:
    yield 1
    await asyncio.sleep(0)


async def test_a_generator_exit_in_a_plain_handler_ends_its_attempt_without_a_log_line(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    @harness.queue.task("plain", max_attempts=1)
    def plain() -> None:
        raise GeneratorExit

    @harness.queue.task("provided", max_attempts=1)
    def provided(number: int = depends(resource)) -> None:
        raise GeneratorExit

    harness.queue.use(Awaiting())
    with caplog.at_level(logging.ERROR, "asyncio"):
        async with working(harness.queue) as worker:
            for function in (plain, provided):
                handle = await function.enqueue()
                task = await ended(harness.queue, handle.id, State.DEAD_LETTERED)
                assert "the handler raised GeneratorExit" in task.failure_history[0].error
            await until(lambda: not worker.slots.running)
            gc.collect()

    assert [line for line in caplog.records if line.name == "asyncio"] == []


async def test_a_generator_exit_of_a_gathered_coroutine_ends_its_attempt_without_a_log_line(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    async def leaving() -> None:
        await asyncio.sleep(0)
        raise GeneratorExit

    @harness.queue.task("gathers", max_attempts=1)
    async def gathers() -> None:
        await asyncio.gather(leaving())

    harness.queue.use(Awaiting())
    with caplog.at_level(logging.ERROR, "asyncio"):
        async with working(harness.queue) as worker:
            handle = await gathers.enqueue()
            await ended(harness.queue, handle.id, State.DEAD_LETTERED)
            await until(lambda: not worker.slots.running)
            gc.collect()

    assert [line for line in caplog.records if line.name == "asyncio"] == []


@pytest.mark.parametrize("value", [None, "5", float("nan"), float("inf")])
async def test_an_extension_must_be_a_finite_number(harness: Harness, value: Any) -> None:
    @harness.queue.task("odd", max_attempts=1)
    async def odd(ctx: Context) -> str:
        with pytest.raises(ConfigError, match=r"use ctx\.extend"):
            ctx.extended_sec = value
        return "refused"

    @harness.queue.task("slow", max_attempts=1, timeout=0.1)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(harness.queue):
        assert await (await odd.enqueue()).result(timeout=10) == "refused"
        handle = await slow.enqueue()
        await ended(harness.queue, handle.id, State.DEAD_LETTERED)
