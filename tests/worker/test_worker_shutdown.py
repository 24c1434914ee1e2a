"""A worker that ends while Redis is unavailable waits no longer than it has something to settle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rqueue import State
from rqueue.core import leases
from rqueue.errors import StoreUnavailable
from rqueue.worker import worker as worker_module
from rqueue.worker.heartbeat import Heartbeat
from rqueue.worker.worker import Worker
from tests.harness import Harness
from tests.worker.running import until

# Less than a call to an unavailable Redis takes by itself.
SOON_SEC = 5


async def hanging(*_: Any) -> Any:
    await asyncio.Event().wait()


async def refusing(*_: Any) -> Any:
    raise StoreUnavailable("here")


@pytest.fixture(params=[hanging, refusing])
def disconnect(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Worker], None]:
    """Makes a worker's Redis unavailable."""

    def take(worker: Worker) -> None:
        monkeypatch.setattr(worker_module, "REDIS_WAIT_SEC", 0.2)
        monkeypatch.setattr(worker.session, "exchange", request.param)
        monkeypatch.setattr(leases, "release", request.param)

    return take


async def test_an_idle_worker_ends_immediately(
    harness: Harness, disconnect: Callable[[Worker], None]
) -> None:
    worker = harness.queue.worker(types=["any"])
    running = asyncio.create_task(worker.run())
    await until(lambda: worker.answered)

    disconnect(worker)
    worker.drain()

    await asyncio.wait_for(running, SOON_SEC)


async def test_finished_tasks_are_settled_when_redis_is_available_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = asyncio.Event()

    @harness.queue.task("held")
    async def held() -> None:
        await ends.wait()

    worker = harness.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    handle = await held.enqueue()
    await until(lambda: worker.slots.running)
    monkeypatch.setattr(worker_module, "REDIS_WAIT_SEC", 0.0)
    with monkeypatch.context() as patch:
        tries = 0

        async def counting(*_: Any) -> Any:
            nonlocal tries
            tries += 1
            raise StoreUnavailable("here")

        patch.setattr(worker.session, "exchange", counting)
        worker.drain()
        ends.set()
        await until(lambda: worker.done)
        before = tries
        await until(lambda: tries > before)

    await asyncio.wait_for(running, SOON_SEC)

    assert await handle.status() is State.COMPLETED


async def test_a_stopped_worker_leaves_its_leases_to_expire(
    harness: Harness, disconnect: Callable[[Worker], None], caplog: pytest.LogCaptureFixture
) -> None:
    @harness.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    worker = harness.queue.worker(name="w1")
    running = asyncio.create_task(worker.run())
    handle = await held.enqueue()
    await until(lambda: worker.slots.running)
    disconnect(worker)
    worker.stop()

    await asyncio.wait_for(running, SOON_SEC)

    assert await handle.status() is State.RUNNING
    (line,) = [line for line in caplog.records if "at shutdown" in line.getMessage()]
    assert vars(line)["leases"] == 1


async def test_a_pending_renewal_does_not_delay_the_end_of_the_heartbeat(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    beating = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def renew(*_: Any) -> Any:
        loop.call_soon_threadsafe(beating.set)
        await asyncio.Event().wait()

    monkeypatch.setattr(leases, "renew", renew)
    held = {"01M7J64DSGF3S95GBFHQG3WX00": "1:x"}
    beat = Heartbeat(
        harness.queue._internals.shard, "w1", held, every_sec=0.01, lost=lambda *_: None
    )
    beat.start()
    await asyncio.wait_for(beating.wait(), SOON_SEC)

    await asyncio.wait_for(asyncio.to_thread(beat.stop), SOON_SEC)

    assert not beat.thread.is_alive()
