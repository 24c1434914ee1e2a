"""Several queues on the seats of one process: in strict order, or by weight."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Queue
from rqueue.errors import StoreUnavailable
from rqueue.runtime import assemble
from rqueue.services.duty import Duty
from rqueue.services.seats import Seats
from rqueue.store.mail import Mail
from tests.house import House
from tests.services.working import until

COUNT = 60


def queues_of(house: House) -> list[Queue]:
    """Two queues on one server, which note whose task has run, and when they are full."""
    settings = house.queue.settings
    return [
        Queue(
            name,
            runtime=assemble(
                settings.model_copy(update={"name": name}), house.queue.runtime.connection
            ),
        )
        for name in ("critical", "default")
    ]


def noting(queues: Sequence[Queue]) -> list[str]:
    """Handlers that write down the queue of each task."""
    ran: list[str] = []
    for queue in queues:

        @queue.task("note")
        async def note(name: str) -> None:
            await asyncio.sleep(0.001)
            ran.append(name)

    return ran


async def fill(queue: Queue, count: int = COUNT) -> None:
    await queue.enqueue_many([queue.call("note", {"name": queue.name}) for _ in range(count)])


@asynccontextmanager
async def on_duty(queues: Sequence[Queue], seats: Seats) -> AsyncIterator[Duty]:
    """A process with a worker for each queue."""
    workers = [queue.worker(name="w1", seats=seats) for queue in queues]
    duty = Duty(workers, [], grace_sec=10)
    running = asyncio.create_task(duty.run())
    try:
        yield duty
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.wait_for(running, 10)


async def test_in_a_strict_order_the_first_queue_is_emptied_first(alone: House) -> None:
    queues = queues_of(alone)
    ran = noting(queues)
    for queue in queues:
        await fill(queue)

    async with on_duty(queues, Seats(2)):
        await until(lambda: len(ran) == 2 * COUNT)

    # What was claimed before the first queue was known to have work is the exception.
    assert Counter(ran[: COUNT + 4])["critical"] == COUNT


async def test_by_weight_both_go_on_and_share(alone: House) -> None:
    queues = queues_of(alone)
    ran = noting(queues)
    await fill(queues[0], 500)
    await fill(queues[1], 500)

    async with on_duty(queues, Seats(4, (4, 1))):
        await until(lambda: len(ran) >= 300)

    found = Counter(ran[:300])
    assert 3 <= found["critical"] / found["default"] <= 5


async def test_a_queue_without_work_keeps_no_seat(alone: House) -> None:
    critical, default = queues_of(alone)
    ran = noting([critical])
    going, inside = asyncio.Event(), 0

    @default.task("hold")
    async def hold() -> None:
        nonlocal inside
        inside += 1
        await going.wait()

    async with on_duty([critical, default], Seats(3)):
        await default.enqueue_many([default.call("hold") for _ in range(5)])
        await until(lambda: inside == 3)
        await fill(critical, 2)
        going.set()
        await until(lambda: len(ran) == 2 and inside == 5)


async def test_no_more_run_at_once_than_there_are_seats(alone: House) -> None:
    queues = queues_of(alone)
    seats = Seats(3, (1, 1))
    most = ended = 0
    for queue in queues:

        @queue.task("note")
        async def note(name: str) -> None:
            nonlocal most, ended
            most = max(most, seats.taken)
            await asyncio.sleep(0.002)
            ended += 1

        await fill(queue, 30)

    async with on_duty(queues, seats):
        await until(lambda: ended == 60)

    assert (most, seats.taken) == (3, 0)


async def test_a_process_drains_all_its_queues(alone: House) -> None:
    queues = queues_of(alone)
    ran = noting(queues)
    for queue in queues:
        await fill(queue, 5)

    async with on_duty(queues, Seats(2)) as duty:
        await until(lambda: len(ran) == 10)
        duty.drain()

    assert duty.draining
    assert duty.finished == 10


@pytest.mark.parametrize("weights", [(), (5, 1)])
@pytest.mark.parametrize("how", ["hangs", "refuses"])
async def test_a_queue_that_cannot_be_reached_holds_no_seat(
    alone: House, monkeypatch: pytest.MonkeyPatch, how: str, weights: tuple[int, ...]
) -> None:
    gone, here = queues = queues_of(alone)
    ran = noting(queues)
    back = asyncio.Event()

    async def away(*_: Any) -> Any:
        if how == "refuses":
            raise StoreUnavailable("here")
        await back.wait()
        raise StoreUnavailable("here")

    async def no_mail(_: float) -> Mail:
        await asyncio.sleep(0.01)
        return Mail(["lost"])

    async with on_duty(queues, Seats(2, weights)) as duty:
        await until(lambda: duty.workers[0].heard and duty.workers[1].heard)
        first = duty.workers[0].talk
        with monkeypatch.context() as patch:
            patch.setattr(first, "turn", away)
            patch.setattr(first, "mail", no_mail)
            duty.workers[0].parking.end()
            for number in range(1, 6):
                await fill(here, 2)
                await until(lambda number=number: len(ran) == 2 * number, within_sec=2)
        back.set()
        await fill(gone, 4)
        await until(lambda: Counter(ran)["critical"] == 4)
