"""Tasks that are completed before they run: how they end is told, and written nowhere."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rqueue import Context, Middleware, State
from rqueue.services.slots import LOST
from rqueue.services.worker import Worker
from rqueue.store.leases import Held
from tests.house import House
from tests.services.working import until, working

FAILED = "task failed after it was acknowledged"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the worker logs."""
    caplog.set_level(logging.INFO, "rqueue.worker")
    return caplog


def counted(worker: Worker, metric: str) -> dict[Any, Any]:
    return dict(worker.desk.ledger.figures.cells.get(metric, {}))


def facts(line: logging.LogRecord) -> dict[str, Any]:
    names = ("task", "type", "attempt", "reason", "raised", "state")
    return {name: getattr(line, name) for name in names}


async def test_one_that_raises_leaves_one_line_and_is_counted(
    house: House, log: pytest.LogCaptureFixture
) -> None:
    @house.queue.task("once", ack="before")
    async def once(word: str) -> None:
        raise ValueError(word)

    async with working(house.queue) as worker:
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
    assert (await house.task(handle.id)).state is State.COMPLETED


async def test_one_whose_time_is_up_is_stopped_and_not_told_as_lost(
    house: House, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    failed: list[Any] = []
    stopped = asyncio.Event()

    class Told(Middleware):
        async def after_settle(self, ctx: Any, outcome: Any, state: State | None) -> None:
            told.append((outcome.reason, state))

    async def fail(shard: Any, rows: list[Any]) -> list[str]:
        failed.extend(rows)
        return ["LOST" for _ in rows]

    @house.queue.task("once", ack="before", timeout=0.2)
    async def once() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    house.queue.use(Told())
    monkeypatch.setattr("rqueue.services.desk.leases.fail", fail)
    async with working(house.queue) as worker:
        await (await once.enqueue()).result(timeout=10)
        await asyncio.wait_for(stopped.wait(), 10)
        await until(lambda: told and not worker.unsettled)
        figures = worker.desk.ledger.figures.cells

    assert told == [("timeout", State.COMPLETED)]
    assert (failed, worker.held) == ([], {})
    (line,) = log.records
    assert (line.getMessage(), facts(line)["reason"]) == (FAILED, "timeout")
    assert list(figures["tasks_failed_total"]) == [("timeout",)]
    assert "rqueue_fence_rejections_total" not in figures


async def test_one_whose_lease_a_turn_misses_runs_on(
    house: House, log: pytest.LogCaptureFixture
) -> None:
    ends, done, tokens = asyncio.Event(), asyncio.Event(), []

    @house.queue.task("once", ack="before")
    async def once(ctx: Context) -> None:
        tokens.append(ctx.token)
        await ends.wait()
        done.set()

    async with working(house.queue) as worker:
        await (await once.enqueue()).result(timeout=10)
        (task,) = worker.slots.running
        await until(lambda: tokens)
        worker.lose(Held(task, tokens[0]), LOST)
        ends.set()
        await asyncio.wait_for(done.wait(), 10)

    assert log.records == []


async def test_one_that_returns_leaves_no_line(house: House, log: pytest.LogCaptureFixture) -> None:
    @house.queue.task("once", ack="before")
    async def once() -> int:
        return 7

    async with working(house.queue) as worker:
        assert await (await once.enqueue()).result(timeout=10) is None
        await until(lambda: not worker.slots.running)

    assert log.records == []
