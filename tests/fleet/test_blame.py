"""Bad workers, bad types and poison tasks are distinguished, with running workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from rqueue import Queue, Retry, RetryPolicy, State
from rqueue.core.counts import Counts
from rqueue.core.workers import WorkerStatus
from rqueue.fleet.bad_workers import BadWorkerDrainer, Drained
from rqueue.settings.load import Settings
from rqueue.task.attempt.breaker import BreakerState
from rqueue.worker.worker import Worker
from tests.harness import NAME, Harness, build, opened
from tests.servers import Server
from tests.worker.running import PATIENCE_SEC, ended, until, until_counts

GOOD = ("good-1", "good-2", "good-3")


@asynccontextmanager
async def running_workers(*queues: tuple[str, Queue]) -> AsyncIterator[dict[str, Worker]]:
    """Runs workers, each with the handlers of its own queue object; yields them by name."""
    async with AsyncExitStack() as stack:
        found = {}
        for name, queue in queues:
            found[name] = await stack.enter_async_context(at_work(queue, name))
        yield found


@asynccontextmanager
async def at_work(queue: Queue, name: str) -> AsyncIterator[Worker]:
    worker = queue.worker(
        name=name, concurrency=2, types=sorted(queue._internals.registry.handlers)
    )
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_SEC)


async def events(harness: Harness) -> list[tuple[str, str]]:
    rows = await harness.client.xrange(harness.keys.events())
    return [(row[b"event"].decode(), row[b"detail"].decode()) for _, row in rows]


async def names_of(harness: Harness, event: str) -> list[str]:
    return [detail for name, detail in await events(harness) if name == event]


async def promoted(harness: Harness) -> None:
    """Makes all retries due."""
    for member in await harness.client.zrange(harness.keys.delayed(), 0, -1):
        await harness.make_due(member.decode())
    await harness.promoter.tick()


async def run_on(harness: Harness, ended: Callable[[Counts], bool]) -> None:
    """Promotes failed tasks until the counts are as expected."""
    async with asyncio.timeout(PATIENCE_SEC):
        while not ended(await harness.queue.counts()):
            await promoted(harness)
            await asyncio.sleep(0.01)


def drainer(harness: Harness, **settings: Any) -> BadWorkerDrainer:
    return BadWorkerDrainer(
        harness.queue._internals.shard, Settings(name=NAME, url="redis://nowhere", **settings)
    )


@asynccontextmanager
async def harnesses(server: Server, *names: str, **settings: Any) -> AsyncIterator[list[Harness]]:
    """Opens one queue, with a harness and handlers for each worker."""
    async with opened(server, **settings) as first:
        connection, client = first.queue._internals.shard.runner.connection, first.client
        yield [first, *(build(connection, client, **settings) for _ in names)]


async def test_a_poison_task_among_good_ones_is_dead_at_its_second_worker(server: Server) -> None:
    async with harnesses(server, *GOOD, breakers={"defaults": {"failure_threshold": 3}}) as all_of:
        harness, *others = all_of
        for one in others:

            @one.queue.task("code")
            async def code(at: int) -> int:
                if at == 7:
                    raise ValueError("poison")
                return at

        queues = zip(GOOD, (one.queue for one in others), strict=True)
        handles = [
            await harness.queue.enqueue("code", {"at": at}, max_attempts=9) for at in range(30)
        ]
        async with running_workers(*queues) as workers:
            await run_on(harness, lambda found: found[State.DEAD_LETTERED] == 1)
            await until_counts(harness, State.COMPLETED, 29)
            assert await drainer(harness).tick() == Drained(0)
            assert not any(worker.draining for worker in workers.values())

        pill = await harness.task(handles[7].id)
        assert (pill.state, pill.poison_pill, pill.failure_reason) == (
            State.DEAD_LETTERED, True, "error",
        )  # fmt: skip
        blamed = [record.agent for record in pill.failure_history]
        assert len(set(blamed)) == 2
        # One worker may have failed it more than once; the first other worker makes it dead.
        assert blamed[-1] not in blamed[:-1]
        assert await names_of(harness, "task.poisoned") == [" ".join(pill.failed_by)]
        assert await names_of(harness, "breaker.opened") == []

        assert await harness.queue.dead.retry(pill.id) is not None
        revived = await harness.task(pill.id)
        assert (revived.poison_pill, revived.failed_by) == (False, ())
        assert len(revived.failure_history) == len(blamed)


async def test_a_bad_worker_among_good_ones_is_drained(server: Server) -> None:
    settings = {"bad_workers": {"tasks": 3}, "breakers": {}, "lease_sec": 3}
    async with harnesses(server, "bad", *GOOD, **settings) as all_of:
        harness, bad, *others = all_of
        done = asyncio.Semaphore(0)
        held = 0

        @bad.queue.task("code")
        async def broken(at: int) -> int:
            nonlocal held
            # Slower than the others, so that it takes some tasks and not all. It does not wait for
            # others, which are idle when all remaining tasks are here.
            held += 1
            if held < (await harness.queue.counts()).live:
                with suppress(TimeoutError):
                    await asyncio.wait_for(done.acquire(), 5)
            held -= 1
            raise ValueError("no disk")

        for one in others:

            @one.queue.task("code")
            async def code(at: int) -> int:
                await asyncio.sleep(0.002)
                done.release()
                return at

        queues = [("bad", bad.queue), *zip(GOOD, (o.queue for o in others), strict=True)]
        sent = 0
        async with running_workers(*queues) as workers, asyncio.timeout(PATIENCE_SEC):
            while not workers["bad"].draining:
                handles = [
                    await harness.queue.enqueue("code", {"at": at}, max_attempts=20)
                    for at in range(20)
                ]
                sent += len(handles)
                await run_on(harness, lambda found: found[State.COMPLETED] == sent)  # noqa: B023
                for worker in workers.values():
                    await worker.registrar.register()
                await drainer(harness, **settings).tick()
            assert await drainer(harness, **settings).tick() == Drained(0)
            assert [name for name, one in workers.items() if one.draining] == ["bad"]

        counts = await harness.queue.counts()
        assert (counts[State.COMPLETED], counts[State.DEAD_LETTERED]) == (sent, 0)
        (blamed,) = await names_of(harness, "worker.blamed")
        assert blamed.startswith("failed ")
        assert await names_of(harness, "breaker.opened") == []
        assert await names_of(harness, "task.poisoned") == []


async def test_a_bad_type_among_good_ones_opens_its_breaker(server: Server) -> None:
    settings = {"breakers": {}, "bad_workers": {"tasks": 2}, "retry": RetryPolicy.immediate()}
    async with harnesses(server, *GOOD, **settings) as all_of:
        harness, *others = all_of
        for one in others:

            @one.queue.task("good")
            async def good(at: int) -> int:
                return at

            @one.queue.task("bad")
            async def bad(at: int) -> int:
                raise ValueError("the service is gone")

        for at in range(20):
            await harness.queue.enqueue("good", {"at": at})
            await harness.queue.enqueue("bad", {"at": at}, max_attempts=20)
        queues = zip(GOOD, (one.queue for one in others), strict=True)
        async with running_workers(*queues) as workers:
            async with asyncio.timeout(20):
                while not await names_of(harness, "breaker.opened"):
                    await harness.promoter.tick()
            await until_counts(harness, State.COMPLETED, 20)
            for worker in workers.values():
                await worker.registrar.register()
            assert await drainer(harness, **settings).tick() == Drained(0)
            assert not any(worker.draining for worker in workers.values())

        (breaker,) = await harness.queue.limits.breakers()
        assert (breaker.type, breaker.state) == ("bad", BreakerState.OPEN)
        assert await names_of(harness, "worker.draining") == []
        # The first task of two workers may be counted as poison; the others form a pattern.
        assert (await harness.queue.counts())[State.DEAD_LETTERED] <= 2


async def test_without_a_breaker_the_tasks_of_a_bad_type_keep_their_attempts(
    server: Server,
) -> None:
    async with harnesses(server, *GOOD, retry=RetryPolicy.immediate()) as all_of:
        harness, *others = all_of
        for one in others:

            @one.queue.task("bad")
            async def bad() -> None:
                raise ValueError("the service is gone")

        handles = [await harness.queue.enqueue("bad", max_attempts=4) for _ in range(20)]
        queues = zip(GOOD, (one.queue for one in others), strict=True)
        async with running_workers(*queues):
            await run_on(harness, lambda found: found[State.DEAD_LETTERED] == 20)

        tasks = [await harness.task(handle.id) for handle in handles]
        pills = [task for task in tasks if task.poison_pill]
        # Each worker counts against the first two tasks that it fails; two workers make a pill.
        assert len(pills) <= len(GOOD)
        assert {task.attempts for task in tasks if not task.poison_pill} == {4}


@pytest.mark.parametrize("error", [ConnectionError("gone"), Retry(0), TimeoutError("slow")])
async def test_a_temporary_failure_makes_no_poison_pill(server: Server, error: Exception) -> None:
    async with harnesses(server, *GOOD, retry=RetryPolicy.immediate()) as all_of:
        harness, *others = all_of
        for one in others:

            @one.queue.task("code")
            async def code() -> None:
                raise error

        handle = await harness.queue.enqueue("code", max_attempts=12)
        queues = zip(GOOD, (one.queue for one in others), strict=True)
        async with running_workers(*queues):
            await run_on(harness, lambda found: found[State.DEAD_LETTERED] == 1)

        task = await harness.task(handle.id)
        assert (task.attempts, task.poison_pill) == (12, False)


@pytest.mark.parametrize(("company", "counts"), [(False, ["w1"]), (True, ["?w1"])])
async def test_a_timeout_counts_against_a_task_that_ran_exclusively(
    harness: Harness, company: bool, counts: list[str]
) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    @harness.queue.task("slow")
    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    @harness.queue.task("beside")
    async def beside() -> None:
        await over.wait()

    async with at_work(harness.queue, "w1") as worker:
        handle = await harness.queue.enqueue("slow")
        await begun.wait()
        if company:
            await harness.queue.enqueue("beside")
            await until(lambda: len(worker.slots.running) == 2)
        worker.slots.running[handle.id.ulid].deadline = 0.0
        found = await ended(harness.queue, handle.id, State.RETRYING)
        over.set()

    assert found.failure_reason == "timeout"
    assert list(found.failed_by) == counts


async def test_a_worker_without_statistics_is_still_listed(harness: Harness) -> None:
    off = build(harness.queue._internals.shard.runner.connection, harness.client, bad_workers=False)

    @off.queue.task("code")
    async def code() -> None:
        raise ValueError("no")

    async with at_work(off.queue, "w1") as worker:
        await off.queue.enqueue("code", max_attempts=1)
        await until_counts(off, State.DEAD_LETTERED, 1)
        await worker.registrar.register()
        (known,) = await harness.queue.fleet.workers()

    assert known.status is WorkerStatus.ACTIVE
    assert known.registration is not None
    assert (known.registration.worked, known.registration.blames) == ({}, {})
