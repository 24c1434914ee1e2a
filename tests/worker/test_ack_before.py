"""Tasks that are completed before they run: their outcome is logged, and stored nowhere."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rqueue import Context, Middleware, State
from rqueue.core.leases import HeldLease
from rqueue.worker.slots import LOST
from rqueue.worker.worker import Worker
from tests.harness import Harness
from tests.worker.running import until, working

FAILED = "task failed after it was acknowledged"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log of the worker."""
    caplog.set_level(logging.INFO, "rqueue.worker")
    return caplog


def counted(worker: Worker, metric: str) -> dict[Any, Any]:
    return dict(worker.executor.stats.figures.cells.get(metric, {}))


def facts(line: logging.LogRecord) -> dict[str, Any]:
    names = ("task", "type", "attempt", "reason", "raised", "state")
    return {name: getattr(line, name) for name in names}


async def test_an_exception_is_logged_once_and_counted(
    harness: Harness, log: pytest.LogCaptureFixture
) -> None:
    @harness.queue.task("once", ack="before")
    async def once(word: str) -> None:
        raise ValueError(word)

    async with working(harness.queue) as worker:
        handle = await once.enqueue("hush")
        await handle.result(timeout=10)
        await until(lambda: log.records and not worker.slots.running)
        figures = counted(worker, "tasks_failed_total")

    (line,) = log.records
    assert (line.levelname, line.getMessage()) == ("WARNING", FAILED)
    assert facts(line) == {
        "task": handle.id, "type": "once", "attempt": 1, "reason": "error", "raised": "ValueError",
        "state": "COMPLETED",
    }  # fmt: skip
    assert "hush" not in str(vars(line))
    assert list(figures) == [("error",)]
    assert (await harness.task(handle.id)).state is State.COMPLETED


async def test_a_timeout_stops_the_handler_and_is_not_reported_as_lost(
    harness: Harness, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[Any] = []
    failed: list[Any] = []
    stopped = asyncio.Event()

    class Recording(Middleware):
        async def after_settle(self, ctx: Any, outcome: Any, state: State | None) -> None:
            settled.append((outcome.reason, state))

    async def fail(shard: Any, rows: list[Any]) -> list[str]:
        failed.extend(rows)
        return ["LOST" for _ in rows]

    @harness.queue.task("once", ack="before", timeout=0.2)
    async def once() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    harness.queue.use(Recording())
    monkeypatch.setattr("rqueue.worker.executor.leases.fail", fail)
    async with working(harness.queue) as worker:
        await (await once.enqueue()).result(timeout=10)
        await asyncio.wait_for(stopped.wait(), 10)
        await until(lambda: settled and not worker.unsettled)
        figures = worker.executor.stats.figures.cells

    assert settled == [("timeout", State.COMPLETED)]
    assert (failed, worker.held) == ([], {})
    (line,) = log.records
    assert (line.getMessage(), facts(line)["reason"]) == (FAILED, "timeout")
    assert list(figures["tasks_failed_total"]) == [("timeout",)]
    assert "rqueue_fence_rejections_total" not in figures


async def test_a_lost_lease_after_the_completion_does_not_stop_the_handler(
    harness: Harness, log: pytest.LogCaptureFixture
) -> None:
    ends, done, tokens = asyncio.Event(), asyncio.Event(), []

    @harness.queue.task("once", ack="before")
    async def once(ctx: Context) -> None:
        tokens.append(ctx.token)
        await ends.wait()
        done.set()

    async with working(harness.queue) as worker:
        await (await once.enqueue()).result(timeout=10)
        (task,) = worker.slots.running
        await until(lambda: tokens)
        worker.lose(HeldLease(task, tokens[0]), LOST)
        ends.set()
        await asyncio.wait_for(done.wait(), 10)

    assert log.records == []


async def test_a_success_is_not_logged(harness: Harness, log: pytest.LogCaptureFixture) -> None:
    @harness.queue.task("once", ack="before")
    async def once() -> int:
        return 7

    async with working(harness.queue) as worker:
        assert await (await once.enqueue()).result(timeout=10) is None
        await until(lambda: not worker.slots.running)

    assert log.records == []
