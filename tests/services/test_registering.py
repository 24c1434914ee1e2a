"""A worker is known while it works, is sent home by an operator, and has left when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Queue, State
from rqueue.errors import StoreUnavailable, WorkerNotFound
from rqueue.services.duty import Duty
from rqueue.services.registering import Registering
from rqueue.services.seats import Seats
from rqueue.services.worker import Worker
from rqueue.store import fleet
from rqueue.testing import memory
from tests.house import House, opened
from tests.servers import Server
from tests.services.test_seats import noting, queues_of
from tests.services.working import ended, until, working


@asynccontextmanager
async def at_work(queue: Queue, **options: Any) -> AsyncIterator[tuple[Worker, Any]]:
    """A worker that has registered, and its run."""
    worker = queue.worker(**{"name": "w1", **options})
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: worker.registering.is_known and worker.heard)
        yield worker, running
    finally:
        worker.stop()
        await asyncio.wait_for(running, 10)


async def status(queue: Queue, name: str = "w1") -> str:
    (found,) = [one for one in await queue.workers() if one.name == name]
    return found.status


async def test_a_worker_is_listed_with_what_it_offers(house: House) -> None:
    options = {"concurrency": 2, "types": ["code"], "capabilities": ["gpu"], "agents": ["ada"]}
    async with at_work(house.queue, models=["small", "large"], **options):
        (found,) = await house.queue.workers()

    said = found.said
    assert said is not None
    assert (said.types, said.capabilities, said.agents) == (("code",), ("gpu",), ("ada",))
    assert (said.max_concurrent_tasks, said.models_available) == (2, ("large", "small"))
    assert (said.poll_interval_sec, said.claim_ttl_sec) == (5.0, 60.0)
    assert (found.status, found.runs, found.held) == ("active", 1, ())


async def test_when_it_has_ended_it_is_offline(house: House) -> None:
    async with at_work(house.queue):
        assert await status(house.queue) == "active"

    assert await status(house.queue) == "offline"
    with pytest.raises(WorkerNotFound):
        await house.queue.drain_worker("w1")


async def test_one_that_is_silent_for_longer_than_a_lease_is_offline(house: House) -> None:
    async with at_work(house.queue) as (worker, _):
        key, field = house.keys.worker("w1"), f"run:{worker.registering.run}"
        await house.client.hset(key, field, f"1 2 {worker.registering.said().text()}")

        assert await status(house.queue) == "offline"


async def test_one_that_drains_by_itself_says_so(house: House) -> None:
    @house.queue.task("held")
    async def held() -> None:
        await asyncio.Event().wait()

    async with at_work(house.queue) as (worker, _):
        await held.enqueue()
        await until(lambda: worker.slots.running)

        worker.drain()

        async with asyncio.timeout(10):
            while await status(house.queue) != "draining":  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_an_idle_worker_that_is_sent_home_ends_at_once(house: House) -> None:
    async with at_work(house.queue) as (worker, running):
        await until(lambda: worker.parking.parked)

        assert await house.queue.drain_worker("w1") == ["w1"]

        await asyncio.wait_for(asyncio.shield(running), 2)
        assert worker.registering.sent_home
        assert await status(house.queue) == "offline"


async def test_one_that_is_sent_home_finishes_what_it_has_and_takes_no_more(house: House) -> None:
    gate = asyncio.Event()

    @house.queue.task("slow")
    async def slow() -> str:
        await gate.wait()
        return "done"

    async with at_work(house.queue, concurrency=2) as (worker, running):
        first = await slow.enqueue()
        await until(lambda: worker.slots.running)
        await house.queue.drain_worker("w1")
        assert await status(house.queue) == "draining"
        await until(lambda: worker.draining)
        second = await slow.enqueue()

        gate.set()
        await asyncio.wait_for(asyncio.shield(running), 10)

    assert await first.result(timeout=5) == "done"
    assert await second.status() is State.READY


async def test_sent_home_twice_it_ends_once(house: House) -> None:
    async with at_work(house.queue) as (worker, running):
        worker.registering.hear("w1/of-another-run")
        assert not worker.draining

        await house.queue.drain_worker("w1")
        worker.registering.hear(worker.registering.run)

        await asyncio.wait_for(asyncio.shield(running), 5)


async def test_one_that_missed_the_mail_hears_it_when_it_registers_again(house: House) -> None:
    async with at_work(house.queue) as (worker, running):
        await until(lambda: worker.parking.parked)
        worker.talk.waiter.box = "of nobody"
        worker.take_mail = lambda mail: None  # type: ignore[method-assign]
        await house.queue.drain_worker("w1")
        handle = await house.queue.enqueue("code")

        await worker.registering.register()

        await asyncio.wait_for(asyncio.shield(running), 10)
        assert await handle.status() is State.READY


async def test_news_of_failures_are_told_soon_and_once(server: Server) -> None:
    async with opened(server, lease_sec=0.6) as house:
        worker = house.queue.worker(name="w1")
        worker.desk.account.news = True

        async with asyncio.timeout(10):
            await worker.registering.rest(60)
            assert await worker.registering.register()

        assert not worker.desk.account.news
        resting = asyncio.create_task(worker.registering.rest(60))
        assert await asyncio.wait({resting}, timeout=0.5) == (set(), {resting})
        worker.drain()
        await asyncio.wait_for(resting, 10)


async def test_a_server_that_lost_its_data_knows_its_workers_again(house: House) -> None:
    async with at_work(house.queue) as (worker, _):
        await house.client.flushall()

        await worker.registering.register()

        assert await status(house.queue) == "active"


async def test_without_its_server_it_tries_again_and_leaves_without_a_word(
    alone: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0

    async def away(*args: object) -> bool:
        nonlocal tried
        tried += 1
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(fleet, "register", away)
    monkeypatch.setattr(fleet, "leave", away)
    worker = alone.queue.worker(name="w1")
    registering = Registering(worker)

    assert not await registering.register()
    await registering.leave()

    assert (tried, registering.is_known) == (1, False)


async def test_of_two_under_one_name_both_are_sent_home(house: House) -> None:
    async with at_work(house.queue) as (_, first), at_work(house.queue) as (_, second):
        (found,) = await house.queue.workers()
        assert found.runs == 2

        await house.queue.drain_worker("w1")

        await asyncio.wait_for(asyncio.gather(first, second), 5)


async def test_a_star_means_all_whose_names_fit(house: House) -> None:
    async with (
        at_work(house.queue, name="crawl-1") as (_, first),
        at_work(house.queue, name="crawl-2") as (_, second),
        at_work(house.queue, name="other") as (other, _),
    ):
        assert await house.queue.drain_worker("crawl-*") == ["crawl-1", "crawl-2"]

        await asyncio.wait_for(asyncio.gather(first, second), 5)
        assert not other.draining
        with pytest.raises(WorkerNotFound):
            await house.queue.drain_worker("none-*")


async def test_sent_home_from_one_queue_a_process_goes_on_with_the_others(valkey: Server) -> None:
    async with opened(valkey) as house:
        first, second = queues = queues_of(house)
        noting(queues)
        seats = Seats(1)
        workers = [queue.worker(name="w1", seats=seats) for queue in queues]
        duty = Duty(workers, [], grace_sec=5)
        running = asyncio.create_task(duty.run())
        await until(lambda: all(worker.registering.is_known for worker in workers))

        await first.drain_worker("w1")
        await until(lambda: workers[0].left)
        handle = await second.enqueue("note", {"name": "x"})
        await ended(second, handle.id, State.COMPLETED)

        assert not running.done()
        await second.drain_worker("w1")
        await asyncio.wait_for(running, 5)
        assert duty.watch.limit == "drained"


async def test_in_memory_a_worker_is_sent_home_too() -> None:
    queue = Queue("shop", url="redis://nowhere")
    with memory(queue):
        async with at_work(queue, types=["code"]) as (_, running):
            assert await status(queue) == "active"

            await queue.drain_worker("w1")

            await asyncio.wait_for(asyncio.shield(running), 5)
        handle = await queue.enqueue("code")
        assert await handle.status() is State.READY
        with pytest.raises(WorkerNotFound):
            await queue.drain_worker("w1")


async def test_a_new_kind_of_task_reaches_a_parked_worker_at_once(house: House) -> None:
    @house.queue.task("code")
    async def code() -> None: ...

    offer = {"capabilities": ["gpu", "eu"], "agents": ["ada"]}
    async with working(house.queue, **offer) as worker:
        await until(lambda: worker.parking.parked)
        ages = asyncio.get_running_loop().time()

        handle = await house.queue.enqueue(
            "code", agent_name="ada", required_capabilities=["eu"], priority=7
        )
        await handle.result(timeout=10)

        # Far less than the claim would wait.
        assert asyncio.get_running_loop().time() - ages < house.queue.settings.park_sec / 2
