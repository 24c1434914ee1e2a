"""A worker goes on: its claim is made anew, a lost task that comes back runs once, and what a
server refuses is waited for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Queue, State
from rqueue.errors import ConfigError, InvalidTask
from rqueue.services.parking import Parking
from rqueue.services.seats import Seats
from rqueue.services.slots import Slots
from rqueue.services.tending import kept
from rqueue.store import leases
from rqueue.store.claims import Grant
from tests.house import House
from tests.services.working import ended, until, working


async def nothing(_: object) -> None:
    """An attempt."""


async def test_a_claim_that_nobody_answers_is_made_anew_by_itself() -> None:
    again = asyncio.Event()
    parking = Parking(Slots(Seats(1), nothing, lambda: None), again.set)

    parking.begin(0.01)
    assert parking.parked
    await asyncio.wait_for(again.wait(), 5)

    assert not parking.parked


async def test_a_claim_that_was_answered_is_not_ended_by_its_old_time() -> None:
    again = asyncio.Event()
    parking = Parking(Slots(Seats(1), nothing, lambda: None), again.set)

    parking.begin(60)
    parking.begin(0)

    assert parking.timer is None
    assert not again.is_set()


async def test_a_task_that_was_lost_and_comes_back_here_runs_once(house: House) -> None:
    said: list[str] = []
    begun = asyncio.Event()

    @house.queue.task("slow", max_attempts=5)
    async def slow() -> None:
        begun.set()
        number = len(said)
        said.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            said[number] = "stopped"
            raise

    async with working(house.queue) as worker:
        handle = await slow.enqueue()
        await begun.wait()
        lease = await house.queue.lease(handle.id, worker.held[handle.id.ulid], worker="w1")
        await house.age(lease, 3600)
        await house.reaper.tick()
        if (await house.task(handle.id)).state is State.RETRYING:
            await house.make_due(handle.id)
            await house.promoter.tick()
        await until(lambda: said == ["stopped", "begun"])

        assert worker.slots.seats.taken == 1


async def test_what_the_server_refuses_later_is_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    @house.queue.task("quick")
    async def quick() -> str:
        return "done"

    async with working(house.queue) as worker:
        await ended(house.queue, (await quick.enqueue()).id, State.COMPLETED)
        turn = worker.talk.turn
        refused = asyncio.Event()

        async def refusing(*args: Any) -> Any:
            refused.set()
            raise ConfigError("url", "the server's ACL forbids this user to run task/turn")

        monkeypatch.setattr(worker.talk, "turn", refusing)
        worker.parking.end()
        await refused.wait()
        monkeypatch.setattr(worker.talk, "turn", turn)

        await ended(house.queue, (await quick.enqueue()).id, State.COMPLETED)


async def test_what_the_server_refuses_at_the_start_ends_the_worker(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = house.queue.worker(types=["any"])

    async def refusing(*args: Any) -> Any:
        raise ConfigError("url", "the server refuses this user or password")

    monkeypatch.setattr(worker.talk, "turn", refusing)

    with pytest.raises(ConfigError):
        await asyncio.wait_for(worker.run(), 10)


async def test_a_long_task_that_was_ahead_is_told_to_have_begun(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = leases.start

    async def noted(shard: Any, rows: list[leases.Held]) -> list[str]:
        started.extend(row.task for row in rows)
        return await start(shard, rows)

    monkeypatch.setattr(leases, "start", noted)

    @house.queue.task("long")
    async def long() -> None:
        await asyncio.Event().wait()

    async with working(house.queue, concurrency=2) as worker:
        handle = await long.enqueue()
        await until(lambda: worker.slots.running)
        (running,) = worker.slots.running.values()
        worker.ahead.note([running.grant], 0)

        await until(lambda: started == [handle.id.ulid])
        await until(lambda: not worker.ahead.tokens)


async def test_what_was_ahead_and_is_given_back_is_forgotten(house: House) -> None:
    worker = house.queue.worker(types=["any"])
    grant = Grant("01M7J64DSGF3S95GBFHQG3WX00", "1:x", 0, 0, 0, b"", b"")
    worker.held[grant.task] = grant.token
    worker.ahead.note([grant], 0)

    await worker.release([grant])

    assert (worker.held, worker.ahead.tokens) == ({}, {})


async def test_a_loop_that_breaks_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    turns = 0
    again = asyncio.Event()

    async def breaking() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise ValueError("a payload")
        again.set()

    running = asyncio.create_task(kept(breaking))
    await asyncio.wait_for(again.wait(), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert running.cancelled()
    assert "ValueError" in str(vars(caplog.records[0])["raised"])
    assert "a payload" not in caplog.text


async def test_every_task_that_ends_is_counted(house: House) -> None:
    @house.queue.task("good")
    async def good() -> None: ...

    @house.queue.task("bad", max_attempts=1)
    async def bad() -> None:
        raise ValueError("no")

    @house.queue.task("early", ack="before")
    async def early() -> None: ...

    async with working(house.queue) as worker:
        for function in (good, bad, early):
            await function.enqueue()
        await until(lambda: worker.pace.finished == 3)


@pytest.mark.parametrize(
    "options",
    [{"name": "my worker"}, {"name": 5}, {"name": "x" * 300}, {"name": ""}]
    + [{"concurrency": number} for number in (0, -3, 2.5, "x", True)],
)
def test_a_worker_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        Queue("q", url="redis://127.0.0.1:1").worker(types=["any"], **options)
