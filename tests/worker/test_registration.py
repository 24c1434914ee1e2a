"""A worker is registered while it works, drains at an operator's request, and leaves when
it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Queue, State
from rqueue.core import workers as registered
from rqueue.errors import StoreUnavailable, WorkerNotFound
from rqueue.gauges import GAUGES
from rqueue.process.worker_process import WorkerProcess
from rqueue.testing import memory
from rqueue.worker.registration import Registrar
from rqueue.worker.shared_slots import SharedSlots
from rqueue.worker.worker import Worker
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker.running import ended, until, working
from tests.worker.test_shared_slots import noting, queues_of


@asynccontextmanager
async def at_work(queue: Queue, **options: Any) -> AsyncIterator[tuple[Worker, Any]]:
    """A worker that has registered, and its run."""
    worker = queue.worker(**{"name": "w1", **options})
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: worker.registrar.is_known and worker.answered)
        yield worker, running
    finally:
        worker.stop()
        await asyncio.wait_for(running, 10)


async def status(queue: Queue, name: str = "w1") -> str:
    (found,) = [one for one in await queue.fleet.workers() if one.name == name]
    return found.status


async def test_a_worker_is_listed_with_what_it_offers(harness: Harness) -> None:
    options = {"concurrency": 2, "types": ["code"], "capabilities": ["gpu"], "agents": ["ada"]}
    async with at_work(harness.queue, models=["small", "large"], **options):
        (found,) = await harness.queue.fleet.workers()

    registration = found.registration
    assert registration is not None
    assert (registration.types, registration.capabilities, registration.agents) == (
        ("code",),
        ("gpu",),
        ("ada",),
    )
    assert (registration.max_concurrent_tasks, registration.models_available) == (
        2,
        ("large", "small"),
    )
    assert (registration.poll_interval_sec, registration.claim_ttl_sec) == (5.0, 60.0)
    assert (found.status, found.runs, found.held) == ("active", 1, ())


async def test_a_worker_that_has_ended_is_offline(harness: Harness) -> None:
    async with at_work(harness.queue):
        assert await status(harness.queue) == "active"

    assert await status(harness.queue) == "offline"
    with pytest.raises(WorkerNotFound):
        await harness.queue.fleet.drain("w1")


async def test_a_worker_that_is_silent_for_longer_than_a_lease_is_offline(harness: Harness) -> None:
    async with at_work(harness.queue) as (worker, _):
        key, field = harness.keys.worker("w1"), f"run:{worker.registrar.run}"
        await harness.client.hset(key, field, f"1 2 {worker.registrar.registration().text()}")

        assert await status(harness.queue) == "offline"


async def test_a_worker_that_drains_registers_as_draining(harness: Harness) -> None:
    @harness.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    async with at_work(harness.queue) as (worker, _):
        await held.enqueue()
        await until(lambda: worker.slots.running)

        worker.drain()

        async with asyncio.timeout(10):
            while await status(harness.queue) != "draining":  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_an_idle_worker_that_is_drained_ends_immediately(harness: Harness) -> None:
    async with at_work(harness.queue) as (worker, running):
        await until(lambda: worker.waiting_claim.waiting)

        assert await harness.queue.fleet.drain("w1") == ["w1"]

        await asyncio.wait_for(asyncio.shield(running), 2)
        assert worker.registrar.drained
        assert await status(harness.queue) == "offline"


async def test_a_drained_worker_finishes_its_tasks_and_claims_no_more(
    harness: Harness,
) -> None:
    gate = asyncio.Event()

    @harness.queue.task("slow")
    async def slow() -> str:
        await gate.wait()
        return "done"

    async with at_work(harness.queue, concurrency=2) as (worker, running):
        first = await slow.enqueue()
        await until(lambda: worker.slots.running)
        await harness.queue.fleet.drain("w1")
        assert await status(harness.queue) == "draining"
        await until(lambda: worker.draining)
        second = await slow.enqueue()

        gate.set()
        await asyncio.wait_for(asyncio.shield(running), 10)

    assert await first.result(timeout=5) == "done"
    assert await second.status() is State.READY


async def test_a_worker_drained_twice_ends_once(harness: Harness) -> None:
    async with at_work(harness.queue) as (worker, running):
        worker.registrar.on_drain("w1/of-another-run")
        assert not worker.draining

        await harness.queue.fleet.drain("w1")
        worker.registrar.on_drain(worker.registrar.run)

        await asyncio.wait_for(asyncio.shield(running), 5)


async def test_a_missed_drain_request_arrives_with_the_next_registration(harness: Harness) -> None:
    async with at_work(harness.queue) as (worker, running):
        await until(lambda: worker.waiting_claim.waiting)
        worker.session.waiter.mailbox = "of nobody"
        worker.take_delivery = lambda delivery: None  # type: ignore[method-assign]
        await harness.queue.fleet.drain("w1")
        handle = await harness.queue.enqueue("code")

        await worker.registrar.register()

        await asyncio.wait_for(asyncio.shield(running), 10)
        assert await handle.status() is State.READY


async def test_changed_failure_statistics_are_sent_soon_and_once(server: Server) -> None:
    async with opened(server, lease_sec=0.6) as harness:
        worker = harness.queue.worker(name="w1")
        worker.executor.failure_stats.changed = True

        async with asyncio.timeout(10):
            await worker.registrar.rest(60)
            assert await worker.registrar.register()

        assert not worker.executor.failure_stats.changed
        resting = asyncio.create_task(worker.registrar.rest(60))
        assert await asyncio.wait({resting}, timeout=0.5) == (set(), {resting})
        worker.drain()
        await asyncio.wait_for(resting, 10)


async def test_workers_register_again_after_redis_lost_its_data(harness: Harness) -> None:
    async with at_work(harness.queue) as (worker, _):
        await harness.client.flushall()

        await worker.registrar.register()

        assert await status(harness.queue) == "active"


async def test_a_worker_that_never_registered_does_not_unregister(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0

    async def unavailable(*args: object) -> bool:
        nonlocal tried
        tried += 1
        raise StoreUnavailable("redis is unavailable")

    monkeypatch.setattr(registered, "register", unavailable)
    monkeypatch.setattr(registered, "leave", unavailable)
    worker = alone.queue.worker(name="w1")
    registrar = Registrar(worker)

    assert not await registrar.register()
    await registrar.leave()

    assert (tried, registrar.is_known) == (1, False)


async def test_both_workers_under_one_name_are_drained(harness: Harness) -> None:
    async with at_work(harness.queue) as (_, first), at_work(harness.queue) as (_, second):
        (found,) = await harness.queue.fleet.workers()
        assert found.runs == 2

        await harness.queue.fleet.drain("w1")

        await asyncio.wait_for(asyncio.gather(first, second), 5)


async def test_a_drain_with_a_star_drains_all_matching_workers(harness: Harness) -> None:
    async with (
        at_work(harness.queue, name="crawl-1") as (_, first),
        at_work(harness.queue, name="crawl-2") as (_, second),
        at_work(harness.queue, name="other") as (other, _),
    ):
        assert await harness.queue.fleet.drain("crawl-*") == ["crawl-1", "crawl-2"]

        await asyncio.wait_for(asyncio.gather(first, second), 5)
        assert not other.draining
        with pytest.raises(WorkerNotFound):
            await harness.queue.fleet.drain("none-*")


async def test_a_process_drained_from_one_queue_continues_with_the_others(valkey: Server) -> None:
    async with opened(valkey) as harness:
        first, second = queues = queues_of(harness)
        noting(queues)
        shared_slots = SharedSlots(1)
        workers = [queue.worker(name="w1", shared_slots=shared_slots) for queue in queues]
        worker_process = WorkerProcess(workers, [], grace_sec=5, gauges=GAUGES)
        running = asyncio.create_task(worker_process.run())
        await until(lambda: all(worker.registrar.is_known for worker in workers))

        await first.fleet.drain("w1")
        await until(lambda: workers[0].withdrawn)
        handle = await second.enqueue("note", {"name": "x"})
        await ended(second, handle.id, State.COMPLETED)

        assert not running.done()
        await second.fleet.drain("w1")
        await asyncio.wait_for(running, 5)
        assert worker_process.monitor.limit == "drained"


async def test_in_memory_a_worker_is_drained_too() -> None:
    queue = Queue("shop", url="redis://nowhere")
    with memory(queue):
        async with at_work(queue, types=["code"]) as (_, running):
            assert await status(queue) == "active"

            await queue.fleet.drain("w1")

            await asyncio.wait_for(asyncio.shield(running), 5)
        handle = await queue.enqueue("code")
        assert await handle.status() is State.READY
        with pytest.raises(WorkerNotFound):
            await queue.fleet.drain("w1")


async def test_a_new_type_of_task_reaches_a_waiting_claim_immediately(harness: Harness) -> None:
    @harness.queue.task("code")
    async def code() -> None: ...

    offer = {"capabilities": ["gpu", "eu"], "agents": ["ada"]}
    async with working(harness.queue, **offer) as worker:
        await until(lambda: worker.waiting_claim.waiting)
        ages = asyncio.get_running_loop().time()

        handle = await harness.queue.enqueue(
            "code", agent_name="ada", required_capabilities=["eu"], priority=7
        )
        await handle.result(timeout=10)

        # Far less than the claim would wait.
        assert asyncio.get_running_loop().time() - ages < harness.queue.settings.claim_wait_sec / 2
