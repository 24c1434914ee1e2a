"""Each kind of culprit among innocents, with workers at work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from rqueue import Queue, Retry, RetryPolicy, State
from rqueue.client.counts import Counts
from rqueue.model.breaker import BreakerState
from rqueue.model.worker import WorkerStatus
from rqueue.services.referee import Referee, Seen
from rqueue.services.worker import Worker
from rqueue.settings import Settings
from tests.house import NAME, House, build, opened
from tests.servers import Server
from tests.services.working import ended, until, until_counts

GOOD = ("good-1", "good-2", "good-3")


@asynccontextmanager
async def crew(*queues: tuple[str, Queue]) -> AsyncIterator[dict[str, Worker]]:
    """Workers by name, each with the handlers of its own queue object."""
    async with AsyncExitStack() as stack:
        found = {}
        for name, queue in queues:
            found[name] = await stack.enter_async_context(at_work(queue, name))
        yield found


@asynccontextmanager
async def at_work(queue: Queue, name: str) -> AsyncIterator[Worker]:
    worker = queue.worker(name=name, concurrency=2, types=sorted(queue.registry.handlers))
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, 10)


async def events(house: House) -> list[tuple[str, str]]:
    rows = await house.client.xrange(house.keys.events())
    return [(row[b"event"].decode(), row[b"detail"].decode()) for _, row in rows]


async def names_of(house: House, event: str) -> list[str]:
    return [detail for name, detail in await events(house) if name == event]


async def promoted(house: House) -> None:
    """Lets the time of all that waits for another attempt come."""
    for member in await house.client.zrange(house.keys.delayed(), 0, -1):
        await house.make_due(member.decode())
    await house.promoter.tick()


async def run_on(house: House, ended: Callable[[Counts], bool]) -> None:
    """Promotes what failed, again and again, until the counts are as they shall be."""
    async with asyncio.timeout(20):
        while not ended(await house.queue.counts()):
            await promoted(house)
            await asyncio.sleep(0.01)


def referee(house: House, **settings: Any) -> Referee:
    return Referee(house.queue.shard, Settings(name=NAME, url="redis://nowhere", **settings))


@asynccontextmanager
async def houses(server: Server, *names: str, **settings: Any) -> AsyncIterator[list[House]]:
    """One queue, with a house for each worker: its handlers are its own."""
    async with opened(server, **settings) as first:
        connection, client = first.queue.shard.runner.connection, first.client
        yield [first, *(build(connection, client, **settings) for _ in names)]


async def test_a_poison_task_among_good_ones_is_dead_at_its_second_worker(server: Server) -> None:
    async with houses(server, *GOOD, breakers={"defaults": {"failure_threshold": 3}}) as all_of:
        house, *others = all_of
        for one in others:

            @one.queue.task("code")
            async def code(at: int) -> int:
                if at == 7:
                    raise ValueError("poison")
                return at

        queues = zip(GOOD, (one.queue for one in others), strict=True)
        handles = [
            await house.queue.enqueue("code", {"at": at}, max_attempts=9) for at in range(30)
        ]
        async with crew(*queues) as workers:
            await run_on(house, lambda found: found[State.DEAD_LETTERED] == 1)
            await until_counts(house, State.COMPLETED, 29)
            assert await referee(house).tick() == Seen(0)
            assert not any(worker.draining for worker in workers.values())

        pill = await house.task(handles[7].id)
        assert (pill.state, pill.poison_pill, pill.failure_reason) == (
            State.DEAD_LETTERED, True, "error",
        )  # fmt: skip
        blamed = [record.agent for record in pill.failure_history]
        assert len(set(blamed)) == 2
        # One worker may have failed it more than once; the first other one ends it.
        assert blamed[-1] not in blamed[:-1]
        assert await names_of(house, "task.poisoned") == [" ".join(pill.failed_by)]
        assert await names_of(house, "breaker.opened") == []

        assert await house.queue.revive(pill.id) is not None
        revived = await house.task(pill.id)
        assert (revived.poison_pill, revived.failed_by) == (False, ())
        assert len(revived.failure_history) == len(blamed)


async def test_a_bad_worker_among_good_ones_is_sent_home(server: Server) -> None:
    settings = {"bad_workers": {"tasks": 3}, "breakers": {}, "lease_sec": 3}
    async with houses(server, "bad", *GOOD, **settings) as all_of:
        house, bad, *others = all_of
        done = asyncio.Semaphore(0)

        @bad.queue.task("code")
        async def broken(at: int) -> int:
            # Slower than the others: it takes some tasks, and not all of them.
            async with asyncio.timeout(5):
                await done.acquire()
            raise ValueError("no disk")

        for one in others:

            @one.queue.task("code")
            async def code(at: int) -> int:
                await asyncio.sleep(0.002)
                done.release()
                return at

        queues = [("bad", bad.queue), *zip(GOOD, (o.queue for o in others), strict=True)]
        sent = 0
        async with crew(*queues) as workers, asyncio.timeout(30):
            while not workers["bad"].draining:
                handles = [
                    await house.queue.enqueue("code", {"at": at}, max_attempts=20)
                    for at in range(20)
                ]
                sent += len(handles)
                await run_on(house, lambda found: found[State.COMPLETED] == sent)  # noqa: B023
                for worker in workers.values():
                    await worker.registering.register()
                await referee(house, **settings).tick()
            assert await referee(house, **settings).tick() == Seen(0)
            assert [name for name, one in workers.items() if one.draining] == ["bad"]

        counts = await house.queue.counts()
        assert (counts[State.COMPLETED], counts[State.DEAD_LETTERED]) == (sent, 0)
        (blamed,) = await names_of(house, "worker.blamed")
        assert blamed.startswith("failed ")
        assert await names_of(house, "breaker.opened") == []
        assert await names_of(house, "task.poisoned") == []


async def test_a_bad_type_among_good_ones_is_the_breakers(server: Server) -> None:
    settings = {"breakers": {}, "bad_workers": {"tasks": 2}, "retry": RetryPolicy.immediate()}
    async with houses(server, *GOOD, **settings) as all_of:
        house, *others = all_of
        for one in others:

            @one.queue.task("good")
            async def good(at: int) -> int:
                return at

            @one.queue.task("bad")
            async def bad(at: int) -> int:
                raise ValueError("the service is gone")

        for at in range(20):
            await house.queue.enqueue("good", {"at": at})
            await house.queue.enqueue("bad", {"at": at}, max_attempts=20)
        queues = zip(GOOD, (one.queue for one in others), strict=True)
        async with crew(*queues) as workers:
            async with asyncio.timeout(20):
                while not await names_of(house, "breaker.opened"):
                    await house.promoter.tick()
            await until_counts(house, State.COMPLETED, 20)
            for worker in workers.values():
                await worker.registering.register()
            assert await referee(house, **settings).tick() == Seen(0)
            assert not any(worker.draining for worker in workers.values())

        (breaker,) = await house.queue.breakers()
        assert (breaker.type, breaker.state) == ("bad", BreakerState.OPEN)
        assert await names_of(house, "worker.draining") == []
        # A task that came first at two workers may look like poison; the others have a pattern.
        assert (await house.queue.counts())[State.DEAD_LETTERED] <= 2


async def test_without_a_breaker_the_tasks_of_a_bad_type_keep_their_attempts(
    server: Server,
) -> None:
    async with houses(server, *GOOD, retry=RetryPolicy.immediate()) as all_of:
        house, *others = all_of
        for one in others:

            @one.queue.task("bad")
            async def bad() -> None:
                raise ValueError("the service is gone")

        handles = [await house.queue.enqueue("bad", max_attempts=4) for _ in range(20)]
        queues = zip(GOOD, (one.queue for one in others), strict=True)
        async with crew(*queues):
            await run_on(house, lambda found: found[State.DEAD_LETTERED] == 20)

        tasks = [await house.task(handle.id) for handle in handles]
        pills = [task for task in tasks if task.poison_pill]
        # Each worker is a witness against the first two that it fails, and two make a pill.
        assert len(pills) <= len(GOOD)
        assert {task.attempts for task in tasks if not task.poison_pill} == {4}


@pytest.mark.parametrize("error", [ConnectionError("gone"), Retry(0), TimeoutError("slow")])
async def test_what_passes_by_itself_makes_no_pill(server: Server, error: Exception) -> None:
    async with houses(server, *GOOD, retry=RetryPolicy.immediate()) as all_of:
        house, *others = all_of
        for one in others:

            @one.queue.task("code")
            async def code() -> None:
                raise error

        handle = await house.queue.enqueue("code", max_attempts=12)
        queues = zip(GOOD, (one.queue for one in others), strict=True)
        async with crew(*queues):
            await run_on(house, lambda found: found[State.DEAD_LETTERED] == 1)

        task = await house.task(handle.id)
        assert (task.attempts, task.poison_pill) == (12, False)


@pytest.mark.parametrize(("company", "counts"), [(False, ["w1"]), (True, ["?w1"])])
async def test_a_timeout_counts_against_a_task_that_ran_alone(
    house: House, company: bool, counts: list[str]
) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    @house.queue.task("slow")
    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    @house.queue.task("beside")
    async def beside() -> None:
        await over.wait()

    async with at_work(house.queue, "w1") as worker:
        handle = await house.queue.enqueue("slow")
        await begun.wait()
        if company:
            await house.queue.enqueue("beside")
            await until(lambda: len(worker.slots.running) == 2)
        worker.slots.running[handle.id.ulid].deadline = 0.0
        found = await ended(house.queue, handle.id, State.RETRYING)
        over.set()

    assert found.failure_reason == "timeout"
    assert list(found.failed_by) == counts


async def test_a_worker_that_tells_nothing_is_still_listed(house: House) -> None:
    off = build(house.queue.shard.runner.connection, house.client, bad_workers=False)

    @off.queue.task("code")
    async def code() -> None:
        raise ValueError("no")

    async with at_work(off.queue, "w1") as worker:
        await off.queue.enqueue("code", max_attempts=1)
        await until_counts(off, State.DEAD_LETTERED, 1)
        await worker.registering.register()
        (known,) = await house.queue.workers()

    assert known.status is WorkerStatus.ACTIVE
    assert known.said is not None
    assert (known.said.worked, known.said.blames) == ({}, {})
