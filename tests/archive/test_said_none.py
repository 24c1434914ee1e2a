"""A process that says none, on a queue whose archiver has ticked, loses no life to the archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.errors import StoreUnavailable
from rqueue.services.archiver import JOIN_SEC
from rqueue.store.outbox import is_joined
from rqueue.testing.clock import ManualClock
from tests.archive.library import Library, library
from tests.house import House, opened
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def shelf(server: Server, pg: Database) -> AsyncIterator[Library]:
    async with library(server, pg, max_outbox=7) as found:
        yield found


@pytest.fixture
async def other(server: Server) -> AsyncIterator[House]:
    """The same queue, in a process that does not know of its archive."""
    async with opened(server, archive="none") as house:
        yield house


async def test_every_life_that_such_a_process_ends_is_archived(
    shelf: Library, other: House
) -> None:
    await shelf.archiver.tick()

    done = await other.running()
    await done.complete("done")
    dead = await other.running()
    await dead.fail(permanent=True)
    await other.queue.revive(dead.id)
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

        assert await shelf.house.client.get(shelf.house.keys.archiving()) == b"7"
        assert await shelf.house.client.ttl(shelf.house.keys.archiving()) == -1


async def test_an_archiver_joins_again_once_a_minute(valkey: Server, pg: Database) -> None:
    async with library(valkey, pg) as shelf:
        clock = ManualClock(shelf.archiver.writer.clock.now())
        shelf.archiver.writer.clock = clock
        await shelf.archiver.tick()
        await shelf.house.client.delete(shelf.house.keys.archiving())

        await shelf.archiver.tick()
        assert not await is_joined(shelf.house.queue.shard)

        clock.ms += round(JOIN_SEC * 1000)
        await shelf.archiver.tick()
        assert await is_joined(shelf.house.queue.shard)


@pytest.mark.parametrize("archive", ["postgres", "none"])
async def test_workers_and_schedulers_join_at_their_start_if_they_know_of_an_archive(
    valkey: Server, archive: str
) -> None:
    async with opened(valkey, archive=archive) as house:
        shard, stop = house.queue.shard, asyncio.Event()
        worker, scheduler = house.queue.worker(types=["code"]), house.queue.scheduler()

        assert await worker.registering.register()
        by_worker = await is_joined(shard)
        await house.client.delete(house.keys.archiving())
        await scheduler.ask(stop)
        by_scheduler = await is_joined(shard)
        await house.client.delete(house.keys.archiving())
        await scheduler.ask(stop)
        await worker.registering.register()

        assert (by_worker, by_scheduler) == ((archive == "postgres"),) * 2
        assert not await is_joined(shard)
        await worker.registering.leave()
