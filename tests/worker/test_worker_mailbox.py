"""Delivered tasks run immediately, are confirmed by the next exchange, and never run twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import State
from rqueue.core.claim import Delivery, Exchanged, read_mailbox
from rqueue.core.leases import HeldLease, Settled
from rqueue.worker.worker import Worker, withdraw
from tests.harness import Harness
from tests.worker.running import until, working


@pytest.fixture
async def worker(harness: Harness) -> AsyncIterator[Worker]:
    """A worker whose exchanges the test makes, with a handler that does not end."""

    @harness.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    # The lane is created first: a new one would be a delivery of its own.
    await harness.queue.cancel((await held.enqueue()).id)
    worker = harness.queue.worker(name="w1", concurrency=3)
    yield worker
    await worker.slots.aclose()


async def delivered(harness: Harness, worker: Worker) -> Delivery:
    """The delivery of a new task to the worker's waiting claim."""
    await harness.queue.enqueue("held")
    mail = await read_mailbox(harness.queue._internals.shard, worker.session.waiter.mailbox, 5)
    assert mail is not None
    return mail


async def test_a_delivery_that_overtakes_the_reply_of_its_exchange_keeps_running(
    harness: Harness, worker: Worker
) -> None:
    exchange = worker.session.waiter.exchange

    async def overtaken(done: list[Settled], n: int, **options: Any) -> Exchanged:
        reply = await exchange(done, n, **options)
        worker.take_delivery(await delivered(harness, worker))
        return reply

    worker.session.clock_offset_ms = (
        await exchange([], 0)
    ).now_ms - asyncio.get_running_loop().time() * 1000
    worker.session.waiter.exchange = overtaken  # type: ignore[method-assign, assignment]
    await worker.exchange()
    (running,) = worker.slots.running.values()
    assert (running.stopped, list(worker.session.unconfirmed)) == ("", [running.grant.task])

    worker.session.waiter.exchange = exchange  # type: ignore[method-assign]
    await worker.exchange()

    assert (running.stopped, worker.session.unconfirmed) == ("", {})
    assert await harness.client.exists(harness.keys.deliveries()) == 0


async def test_a_draining_worker_keeps_delivered_tasks_and_claims_no_more(
    harness: Harness, worker: Worker
) -> None:
    await worker.exchange()
    worker.take_delivery(await delivered(harness, worker))
    waiting = await harness.queue.enqueue("held")
    worker.drain()

    await withdraw(worker)

    (running,) = worker.slots.running.values()
    assert (running.stopped, worker.session.unconfirmed) == ("", {})
    assert await waiting.status() is State.READY


async def test_a_delivered_task_that_another_worker_leased_is_stopped(
    harness: Harness, worker: Worker
) -> None:
    await worker.exchange()
    worker.take_delivery(await delivered(harness, worker))
    (running,) = worker.slots.running.values()
    await harness.client.zadd(harness.keys.deliveries(), {f"{running.grant.task}:1": 1})
    await harness.promoter.tick()
    (lease,) = await harness.queue.claim(worker="w2", types=["held"])

    await worker.exchange()
    await until(lambda: not worker.slots.running)

    assert lease.id.ulid == running.grant.task
    assert (running.stopped, worker.held) == ("lost", {})


async def test_a_task_lost_before_its_first_step_frees_its_slot(
    harness: Harness, worker: Worker
) -> None:
    await worker.exchange()
    worker.take_delivery(await delivered(harness, worker))
    (running,) = worker.slots.running.values()

    worker.lose(HeldLease(running.grant.task, running.grant.token), "lost")
    await until(lambda: not worker.slots.running)

    assert (worker.slots.shared_slots.taken, worker.held) == (0, {})


async def test_a_cancelled_task_is_stopped_immediately(harness: Harness) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @harness.queue.task("long")
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    # The lease is long: no heartbeat reports the loss during this test.
    async with working(harness.queue) as worker:
        handle = await long.enqueue()
        await begun.wait()

        await harness.queue.cancel(handle.id)
        await asyncio.wait_for(stopped.wait(), 5)
        await until(lambda: not worker.held)

    assert await handle.status() is State.CANCELLED


async def test_a_fence_of_an_older_claim_stops_nothing(harness: Harness, worker: Worker) -> None:
    await worker.exchange()
    worker.take_delivery(await delivered(harness, worker))
    (running,) = worker.slots.running.values()

    worker.take_delivery(Delivery(["fenced", running.grant.task, "9:other"]))

    assert running.stopped == ""


async def test_an_old_delivery_is_not_run(harness: Harness, worker: Worker) -> None:
    await worker.exchange()
    mail = await delivered(harness, worker)

    worker.take_delivery(mail._replace(sent_ms=mail.sent_ms - 2000))

    assert not worker.slots.running


async def test_a_ready_task_whose_lease_was_lost_does_not_start(
    harness: Harness, worker: Worker
) -> None:
    worker.slots.shared_slots.size = 0
    await harness.queue.enqueue("held")
    worker.take((await worker.session.waiter.exchange([], 1)).answer.grants)
    (grant,) = worker.slots.ready

    worker.lose(HeldLease(grant.task, "9:other"), "lost")
    assert list(worker.slots.ready) == [grant]
    worker.lose(HeldLease(grant.task, grant.token), "lost")

    assert (list(worker.slots.ready), worker.held) == ([], {})
