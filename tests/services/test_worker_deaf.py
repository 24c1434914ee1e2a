"""Handlers that do not stop when they are told to: their attempts end, and their slots are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.services import tending
from rqueue.services.gathering import Watched
from rqueue.services.probing import examine
from rqueue.store.leases import Held
from tests.house import House, opened
from tests.servers import Server
from tests.services.working import ended, until, working

TOLD = "handler does not stop; its slot is lost"


@pytest.fixture
async def house(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(tending, "LEAST_GRACE_SEC", 0.05)
    async with opened(valkey, timeout_grace_sec=0) as house:
        yield house


def deaf_of(house: House, **options: Any) -> tuple[Any, asyncio.Event]:
    """A handler that ends when it wants to, and what lets it."""
    over = asyncio.Event()

    @house.queue.task("deaf", timeout=0.1, **options)
    async def deaf(ctx: Context) -> int:
        ctx.state["begun"] = True
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return 7

    return deaf, over


async def test_its_attempt_ends_as_a_timeout_and_is_told_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    deaf, over = deaf_of(house, max_attempts=1)

    async with working(house.queue, concurrency=2) as worker:
        handle = await deaf.enqueue()
        task = await ended(house.queue, handle.id, State.DEAD_LETTERED)
        await until(lambda: not worker.held)
        seats = worker.slots.seats
        assert (seats.taken, seats.free) == (1, 1)
        over.set()
        await until(lambda: seats.taken == 0)

    assert [record.reason for record in task.failure_history] == ["timeout"]
    (line,) = [vars(line) for line in caplog.records if line.getMessage() == TOLD]
    assert (line["task"], line["type"], line["why"]) == (handle.id, "deaf", "timeout")
    assert not [line for line in caplog.records if line.getMessage() == "task lost"]


async def test_with_all_slots_held_it_claims_no_more_and_is_not_ready(house: House) -> None:
    deaf, over = deaf_of(house, max_attempts=2, retry={"strategy": "immediate"})

    @house.queue.task("good")
    async def good() -> int:
        return 8

    async with working(house.queue, concurrency=2) as worker:
        watched = [Watched("house", house.queue.shard, worker)]
        handle = await deaf.enqueue()
        await ended(house.queue, handle.id, State.RETRYING)
        assert (await examine(watched, 0.0)).ready
        await house.make_due(handle.id)
        await house.promoter.tick()
        await ended(house.queue, handle.id, State.DEAD_LETTERED)

        waiting = await good.enqueue()
        health = await examine(watched, 0.0)
        assert (health.ready, health.slots, health.alive) == (False, False, True)
        assert await waiting.status() is State.READY

        over.set()
        assert await waiting.result(timeout=10) == 8
        assert (await examine(watched, 0.0)).ready


async def test_one_whose_lease_was_lost_is_told_too_and_settles_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    deaf, over = deaf_of(house, max_attempts=1)
    async with working(house.queue, concurrency=2) as worker:
        handle = await deaf.options(timeout=60).enqueue()
        # Told before its first step, it would never come to the loop.
        await until(lambda: worker.desk.state)
        worker.lose(Held(handle.id.ulid, worker.held[handle.id.ulid]), "lost")
        await until(lambda: worker.slots.stuck)
        over.set()
        await until(lambda: not worker.slots.stuck)

        assert (worker.held, worker.unsettled) == ({}, 0)

    (line,) = [vars(line) for line in caplog.records if line.getMessage() == TOLD]
    assert (line["task"], line["why"]) == (handle.id, "lost")


async def test_one_that_was_acknowledged_before_is_told_and_not_failed(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    deaf, over = deaf_of(house, ack="before")
    async with working(house.queue, concurrency=2) as worker:
        handle = await deaf.enqueue()
        await until(lambda: worker.slots.stuck)
        over.set()
        await until(lambda: not worker.slots.stuck)

        assert worker.unsettled == 0

    assert await handle.status() is State.COMPLETED
    assert [line.getMessage() for line in caplog.records if line.levelname == "ERROR"] == [TOLD]


async def test_a_worker_that_ends_does_not_wait_for_it(house: House) -> None:
    deaf, over = deaf_of(house, max_attempts=1)
    worker = house.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    await deaf.enqueue()
    await until(lambda: worker.slots.stuck)
    worker.drain()

    await asyncio.wait_for(running, 5)

    over.set()
