"""What is brought by mail runs at once, is confirmed by the next turn, and is never taken twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import State
from rqueue.services.leaving import leave
from rqueue.services.worker import Worker
from rqueue.store.claims import Turned
from rqueue.store.leases import Held, Settled
from rqueue.store.mail import Mail, read_mail
from tests.house import House
from tests.services.working import until, working


@pytest.fixture
async def worker(house: House) -> AsyncIterator[Worker]:
    """A worker whose turns the test makes, with a handler that does not end."""

    @house.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    # The lane is made first: a new one would be news, and the parked claim would be sent anew.
    await house.queue.cancel((await held.enqueue()).id)
    worker = house.queue.worker(name="w1", concurrency=3)
    yield worker
    await worker.slots.aclose()


async def brought(house: House, worker: Worker) -> Mail:
    """The mail that brings a new task to the worker's parked claim."""
    await house.queue.enqueue("held")
    mail = await read_mail(house.queue.shard, worker.talk.waiter.box, 5)
    assert mail is not None
    return mail


async def test_mail_that_overtakes_the_reply_of_its_own_turn_runs_on(
    house: House, worker: Worker
) -> None:
    turn = worker.talk.waiter.turn

    async def overtaken(done: list[Settled], n: int, **options: Any) -> Turned:
        turned = await turn(done, n, **options)
        worker.take_mail(await brought(house, worker))
        return turned

    worker.talk.ahead_ms = (await turn([], 0)).now_ms - asyncio.get_running_loop().time() * 1000
    worker.talk.waiter.turn = overtaken  # type: ignore[method-assign, assignment]
    await worker.turn()
    (running,) = worker.slots.running.values()
    assert (running.stopped, list(worker.talk.unconfirmed)) == ("", [running.grant.task])

    worker.talk.waiter.turn = turn  # type: ignore[method-assign]
    await worker.turn()

    assert (running.stopped, worker.talk.unconfirmed) == ("", {})
    assert await house.client.exists(house.keys.handoffs()) == 0


async def test_a_worker_that_drains_keeps_what_was_brought_and_claims_no_more(
    house: House, worker: Worker
) -> None:
    await worker.turn()
    worker.take_mail(await brought(house, worker))
    waiting = await house.queue.enqueue("held")
    worker.drain()

    await leave(worker)

    (running,) = worker.slots.running.values()
    assert (running.stopped, worker.talk.unconfirmed) == ("", {})
    assert await waiting.status() is State.READY


async def test_what_was_given_to_another_meanwhile_is_stopped(house: House, worker: Worker) -> None:
    await worker.turn()
    worker.take_mail(await brought(house, worker))
    (running,) = worker.slots.running.values()
    await house.client.zadd(house.keys.handoffs(), {f"{running.grant.task}:1": 1})
    await house.promoter.tick()
    (lease,) = await house.queue.claim(worker="w2", types=["held"])

    await worker.turn()
    await until(lambda: not worker.slots.running)

    assert lease.id.ulid == running.grant.task
    assert (running.stopped, worker.held) == ("lost", {})


async def test_what_is_lost_before_its_first_step_leaves_its_seat(
    house: House, worker: Worker
) -> None:
    await worker.turn()
    worker.take_mail(await brought(house, worker))
    (running,) = worker.slots.running.values()

    worker.lose(Held(running.grant.task, running.grant.token), "lost")
    await until(lambda: not worker.slots.running)

    assert (worker.slots.seats.taken, worker.held) == (0, {})


async def test_a_cancelled_task_is_stopped_at_once(house: House) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @house.queue.task("long")
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    # The lease is long: no heartbeat tells it in this test's time.
    async with working(house.queue) as worker:
        handle = await long.enqueue()
        await begun.wait()

        await house.queue.cancel(handle.id)
        await asyncio.wait_for(stopped.wait(), 5)
        await until(lambda: not worker.held)

    assert await handle.status() is State.CANCELLED


async def test_a_fence_of_an_older_claim_stops_nothing(house: House, worker: Worker) -> None:
    await worker.turn()
    worker.take_mail(await brought(house, worker))
    (running,) = worker.slots.running.values()

    worker.take_mail(Mail(["fenced", running.grant.task, "9:other"]))

    assert running.stopped == ""


async def test_old_mail_is_not_run(house: House, worker: Worker) -> None:
    await worker.turn()
    mail = await brought(house, worker)

    worker.take_mail(mail._replace(sent_ms=mail.sent_ms - 2000))

    assert not worker.slots.running


async def test_a_lost_lease_that_waits_for_a_slot_does_not_begin(
    house: House, worker: Worker
) -> None:
    worker.slots.seats.size = 0
    await house.queue.enqueue("held")
    worker.take((await worker.talk.waiter.turn([], 1)).answer.grants)
    (grant,) = worker.slots.ready

    worker.lose(Held(grant.task, "9:other"), "lost")
    assert list(worker.slots.ready) == [grant]
    worker.lose(Held(grant.task, grant.token), "lost")

    assert (list(worker.slots.ready), worker.held) == ([], {})
