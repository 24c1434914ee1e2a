"""Handlers that do not stop when they should: their attempts end, and their slots are reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.core.leases import HeldLease
from rqueue.process.monitor import ServedQueue, check_health
from rqueue.worker import worker as worker_module
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker.running import ended, until, working

TOLD = "handler does not stop, slot lost"


@pytest.fixture
async def harness(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    monkeypatch.setattr(worker_module, "LEAST_GRACE_SEC", 0.05)
    async with opened(valkey, timeout_grace_sec=0) as harness:
        yield harness


def ignoring_stop(harness: Harness, **options: Any) -> tuple[Any, asyncio.Event]:
    """A handler that ignores its cancel, and the event that ends it."""
    over = asyncio.Event()

    @harness.queue.task("ignores_stop", timeout=0.1, **options)
    async def ignores_stop(ctx: Context) -> int:
        ctx.state["begun"] = True
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return 7

    return ignores_stop, over


async def test_an_unresponsive_attempt_times_out_and_is_logged_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    ignores_stop, over = ignoring_stop(harness, max_attempts=1)

    async with working(harness.queue, concurrency=2) as worker:
        handle = await ignores_stop.enqueue()
        task = await ended(harness.queue, handle.id, State.DEAD_LETTERED)
        await until(lambda: not worker.held)
        shared_slots = worker.slots.shared_slots
        assert (shared_slots.taken, shared_slots.free) == (1, 1)
        over.set()
        await until(lambda: shared_slots.taken == 0)

    assert [record.reason for record in task.failure_history] == ["timeout"]
    (line,) = [vars(line) for line in caplog.records if line.getMessage() == TOLD]
    assert (line["task"], line["type"], line["why"]) == (handle.id, "ignores_stop", "timeout")
    assert not [line for line in caplog.records if line.getMessage() == "task lost"]


async def test_a_worker_whose_slots_are_all_stuck_claims_nothing_and_is_not_ready(
    harness: Harness,
) -> None:
    ignores_stop, over = ignoring_stop(harness, max_attempts=2, retry={"strategy": "immediate"})

    @harness.queue.task("good")
    async def good() -> int:
        return 8

    async with working(harness.queue, concurrency=2) as worker:
        served_queues = [ServedQueue("sales", harness.queue._internals.shard, worker)]
        handle = await ignores_stop.enqueue()
        await ended(harness.queue, handle.id, State.RETRYING)
        assert (await check_health(served_queues, 0.0)).ready
        await harness.make_due(handle.id)
        await harness.promoter.tick()
        await ended(harness.queue, handle.id, State.DEAD_LETTERED)

        waiting = await good.enqueue()
        health = await check_health(served_queues, 0.0)
        assert (health.ready, health.slots, health.alive) == (False, False, True)
        assert await waiting.status() is State.READY

        over.set()
        assert await waiting.result(timeout=10) == 8
        assert (await check_health(served_queues, 0.0)).ready


async def test_an_unresponsive_attempt_with_a_lost_lease_is_logged_and_settles_nothing(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    ignores_stop, over = ignoring_stop(harness, max_attempts=1)
    async with working(harness.queue, concurrency=2) as worker:
        handle = await ignores_stop.options(timeout=60).enqueue()
        # Stopped before its first step, it would never block the loop.
        await until(lambda: worker.executor.state)
        worker.lose(HeldLease(handle.id.ulid, worker.held[handle.id.ulid]), "lost")
        await until(lambda: worker.slots.stuck)
        over.set()
        await until(lambda: not worker.slots.stuck)

        assert (worker.held, worker.unsettled) == ({}, 0)

    (line,) = [vars(line) for line in caplog.records if line.getMessage() == TOLD]
    assert (line["task"], line["why"]) == (handle.id, "lost")


async def test_an_unresponsive_attempt_acknowledged_before_is_logged_and_not_failed(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    ignores_stop, over = ignoring_stop(harness, ack="before")
    async with working(harness.queue, concurrency=2) as worker:
        handle = await ignores_stop.enqueue()
        await until(lambda: worker.slots.stuck)
        over.set()
        await until(lambda: not worker.slots.stuck)

        assert worker.unsettled == 0

    assert await handle.status() is State.COMPLETED
    assert [line.getMessage() for line in caplog.records if line.levelname == "ERROR"] == [TOLD]


async def test_a_worker_that_ends_does_not_wait_for_an_unresponsive_handler(
    harness: Harness,
) -> None:
    ignores_stop, over = ignoring_stop(harness, max_attempts=1)
    worker = harness.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    await ignores_stop.enqueue()
    await until(lambda: worker.slots.stuck)
    worker.drain()

    await asyncio.wait_for(running, 5)

    over.set()
