"""Joining: a queue with an archive is marked, so that all processes write to its outbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.archive.archiver import JOIN_SEC
from rqueue.core.outbox import is_joined
from rqueue.errors import StoreUnavailable
from rqueue.testing.timeline import ManualClock
from tests.archive.archiver_harness import ArchiverHarness, archiver_harness
from tests.harness import Harness, opened
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def pg_env(server: Server, pg: Database) -> AsyncIterator[ArchiverHarness]:
    async with archiver_harness(server, pg, max_outbox=7) as found:
        yield found


@pytest.fixture
async def other(server: Server) -> AsyncIterator[Harness]:
    """The same queue in a process without the archive setting."""
    async with opened(server, archive="none") as harness:
        yield harness


async def test_lives_ended_by_a_process_without_the_archive_setting_are_archived(
    pg_env: ArchiverHarness, other: Harness
) -> None:
    await pg_env.archiver.tick()

    done = await other.running()
    await done.complete("done")
    dead = await other.running()
    await dead.fail(permanent=True)
    await other.queue.dead.retry(dead.id)
    (again,) = await other.queue.claim(worker="w1")
    await again.start()
    await again.complete("at last")
    await pg_env.archiver.tick()

    rows = pg_env.query("SELECT rqueue.ulid(id), life, state FROM rqueue.task_lives")
    assert {tuple(map(str, row)) for row in rows} == {
        (done.id.ulid, "1", "COMPLETED"),
        (dead.id.ulid, "1", "DEAD_LETTERED"),
        (dead.id.ulid, "2", "COMPLETED"),
    }


async def test_an_archiver_joins_before_it_connects_to_postgres(
    valkey: Server, own_pg: Database
) -> None:
    async with archiver_harness(valkey, own_pg, max_outbox=7) as pg_env:
        own_pg.stop()

        with pytest.raises(StoreUnavailable):
            await pg_env.archiver.tick()

        assert await pg_env.harness.client.get(pg_env.harness.keys.archiving()) == b"7"
        assert await pg_env.harness.client.ttl(pg_env.harness.keys.archiving()) == -1


async def test_an_archiver_joins_again_once_a_minute(valkey: Server, pg: Database) -> None:
    async with archiver_harness(valkey, pg) as pg_env:
        clock = ManualClock(pg_env.archiver.writer.clock.now())
        pg_env.archiver.writer.clock = clock
        await pg_env.archiver.tick()
        await pg_env.harness.client.delete(pg_env.harness.keys.archiving())

        await pg_env.archiver.tick()
        assert not await is_joined(pg_env.harness.queue._internals.shard)

        clock.ms += round(JOIN_SEC * 1000)
        await pg_env.archiver.tick()
        assert await is_joined(pg_env.harness.queue._internals.shard)


@pytest.mark.parametrize("archive", ["postgres", "none"])
async def test_workers_and_schedulers_with_an_archive_join_at_their_start(
    valkey: Server, archive: str
) -> None:
    async with opened(valkey, archive=archive) as harness:
        shard, stop = harness.queue._internals.shard, asyncio.Event()
        worker, scheduler = harness.queue.worker(types=["code"]), harness.queue.scheduler()

        assert await worker.registrar.register()
        by_worker = await is_joined(shard)
        await harness.client.delete(harness.keys.archiving())
        await scheduler.request_term(stop)
        by_scheduler = await is_joined(shard)
        await harness.client.delete(harness.keys.archiving())
        await scheduler.request_term(stop)
        await worker.registrar.register()

        assert (by_worker, by_scheduler) == ((archive == "postgres"),) * 2
        assert not await is_joined(shard)
        await worker.registrar.leave()
