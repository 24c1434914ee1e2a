"""A process that says none, on a queue whose archiver has ticked, loses no life to the archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.archive.archiver import JOIN_SEC
from rqueue.core.outbox import is_joined
from rqueue.errors import StoreUnavailable
from rqueue.testing.clock import ManualClock
from tests.archive.library import Library, library
from tests.harness import Harness, opened
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def shelf(server: Server, pg: Database) -> AsyncIterator[Library]:
    async with library(server, pg, max_outbox=7) as found:
        yield found


@pytest.fixture
async def other(server: Server) -> AsyncIterator[Harness]:
    """The same queue, in a process that does not know of its archive."""
    async with opened(server, archive="none") as harness:
        yield harness


async def test_every_life_that_such_a_process_ends_is_archived(
    shelf: Library, other: Harness
) -> None:
    await shelf.archiver.tick()

    done = await other.running()
    await done.complete("done")
    dead = await other.running()
    await dead.fail(permanent=True)
    await other.queue.dead.retry(dead.id)
    (again,) = await other.queue.claim(worker="w1")
    await again.start()
    await again.complete("at last")
    await shelf.archiver.tick()

    rows = shelf.ask("SELECT rqueue.ulid(id), life, state FROM rqueue.task_lives")
    assert {tuple(map(str, row)) for row in rows} == {
        (done.id.ulid, "1", "COMPLETED"),
        (dead.id.ulid, "1", "DEAD_LETTERED"),
        (dead.id.ulid, "2", "COMPLETED"),
    }


async def test_an_archiver_joins_before_it_asks_postgresql(
    valkey: Server, own_pg: Database
) -> None:
    async with library(valkey, own_pg, max_outbox=7) as shelf:
        own_pg.stop()

        with pytest.raises(StoreUnavailable):
            await shelf.archiver.tick()

        assert await shelf.harness.client.get(shelf.harness.keys.archiving()) == b"7"
        assert await shelf.harness.client.ttl(shelf.harness.keys.archiving()) == -1


async def test_an_archiver_joins_again_once_a_minute(valkey: Server, pg: Database) -> None:
    async with library(valkey, pg) as shelf:
        clock = ManualClock(shelf.archiver.writer.clock.now())
        shelf.archiver.writer.clock = clock
        await shelf.archiver.tick()
        await shelf.harness.client.delete(shelf.harness.keys.archiving())

        await shelf.archiver.tick()
        assert not await is_joined(shelf.harness.queue._internals.shard)

        clock.ms += round(JOIN_SEC * 1000)
        await shelf.archiver.tick()
        assert await is_joined(shelf.harness.queue._internals.shard)


@pytest.mark.parametrize("archive", ["postgres", "none"])
async def test_workers_and_schedulers_join_at_their_start_if_they_know_of_an_archive(
    valkey: Server, archive: str
) -> None:
    async with opened(valkey, archive=archive) as harness:
        shard, stop = harness.queue._internals.shard, asyncio.Event()
        worker, scheduler = harness.queue.worker(types=["code"]), harness.queue.scheduler()

        assert await worker.registrar.register()
        by_worker = await is_joined(shard)
        await harness.client.delete(harness.keys.archiving())
        await scheduler.ask(stop)
        by_scheduler = await is_joined(shard)
        await harness.client.delete(harness.keys.archiving())
        await scheduler.ask(stop)
        await worker.registrar.register()

        assert (by_worker, by_scheduler) == ((archive == "postgres"),) * 2
        assert not await is_joined(shard)
        await worker.registrar.leave()
