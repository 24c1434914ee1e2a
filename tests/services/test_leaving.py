"""A worker that ends while its server is gone waits no longer than it has something to lose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rqueue import State
from rqueue.errors import StoreUnavailable
from rqueue.services import leaving
from rqueue.services.heartbeat import Heartbeat
from rqueue.services.worker import Worker
from rqueue.store import leases
from tests.house import House
from tests.services.working import until

# Less than a call to a server that is gone takes by itself.
SOON_SEC = 5


async def hanging(*_: Any) -> Any:
    await asyncio.Event().wait()


async def refusing(*_: Any) -> Any:
    raise StoreUnavailable("here")


@pytest.fixture(params=[hanging, refusing])
def gone(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Worker], None]:
    """Takes a worker's server away."""

    def take(worker: Worker) -> None:
        monkeypatch.setattr(leaving, "PATIENCE_SEC", 0.2)
        monkeypatch.setattr(worker.talk, "turn", request.param)
        monkeypatch.setattr(leases, "release", request.param)

    return take


async def test_an_idle_one_ends_at_once(house: House, gone: Callable[[Worker], None]) -> None:
    worker = house.queue.worker(types=["any"])
    running = asyncio.create_task(worker.run())
    await until(lambda: worker.heard)

    gone(worker)
    worker.drain()

    await asyncio.wait_for(running, SOON_SEC)


async def test_what_has_finished_is_told_when_the_server_is_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = asyncio.Event()

    @house.queue.task("held")
    async def held() -> None:
        await ends.wait()

    worker = house.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    handle = await held.enqueue()
    await until(lambda: worker.slots.running)
    monkeypatch.setattr(leaving, "PATIENCE_SEC", 0.0)
    with monkeypatch.context() as patch:
        tries = 0

        async def counting(*_: Any) -> Any:
            nonlocal tries
            tries += 1
            raise StoreUnavailable("here")

        patch.setattr(worker.talk, "turn", counting)
        worker.drain()
        ends.set()
        await until(lambda: worker.done)
        before = tries
        await until(lambda: tries > before)

    await asyncio.wait_for(running, SOON_SEC)

    assert await handle.status() is State.COMPLETED


async def test_one_that_is_told_to_stop_leaves_the_rest_to_expire(
    house: House, gone: Callable[[Worker], None], caplog: pytest.LogCaptureFixture
) -> None:
    @house.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    worker = house.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    handle = await held.enqueue()
    await until(lambda: worker.slots.running)
    gone(worker)
    worker.stop()

    await asyncio.wait_for(running, SOON_SEC)

    assert await handle.status() is State.RUNNING
    (line,) = [line for line in caplog.records if "at the end" in line.getMessage()]
    assert vars(line)["leases"] == 1


async def test_a_beat_under_way_does_not_keep_the_heartbeat(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    beating = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def renew(*_: Any) -> Any:
        loop.call_soon_threadsafe(beating.set)
        await asyncio.Event().wait()

    monkeypatch.setattr(leases, "renew", renew)
    held = {"01M7J64DSGF3S95GBFHQG3WX00": "1:x"}
    beat = Heartbeat(house.queue.shard, "w1", held, every_sec=0.01, lost=lambda *_: None)
    beat.start()
    await asyncio.wait_for(beating.wait(), SOON_SEC)

    await asyncio.wait_for(asyncio.to_thread(beat.stop), SOON_SEC)

    assert not beat.thread.is_alive()
