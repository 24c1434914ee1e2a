"""The recorder: a look at the queue, written down where it belongs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.archive.connection import Archive
from rqueue.archive.maintenance.metrics import Recorder, longest_silence
from rqueue.core.workers import Run, WorkerRecord
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.services import scheduler_services
from tests.archive.archived_harness import ArchivedHarness, housed
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def home(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    async with housed(valkey, pg) as found:
        yield found


def recorder(home: ArchivedHarness) -> Recorder:
    return Recorder(home.queue._internals.shard, home.kept.archive, home.queue.settings)


async def test_what_comes_and_ends_is_in_the_day(home: ArchivedHarness) -> None:
    service = recorder(home)
    await service.tick()
    for _ in range(3):
        await home.ended(agent_name=None)
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await home.archiver.tick()

    done = await service.tick()

    (day,) = await home.queue.archive.metrics()
    assert done.minutes >= 1
    assert (day.tasks_created, day.tasks_completed, day.tasks_failed) == (4, 3, 1)
    assert day.average_latency is not None
    assert day.worker_heartbeat_delay is not None
    assert day.error_rates_per_agent == {"w1": 0.25}


async def test_a_server_that_forgot_all_counts_on_from_there(home: ArchivedHarness) -> None:
    service = recorder(home)
    for _ in range(5):
        await home.queue.enqueue("code")
    await service.tick()
    await home.harness.client.flushall()
    await home.queue.enqueue("code")
    await service.tick()
    await home.queue.enqueue("code")
    await service.tick()

    (day,) = await home.queue.archive.metrics()

    assert day.tasks_created == 1


async def test_redis_away_in_the_middle_writes_nothing(
    home: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = recorder(home)

    async def away() -> None:
        raise StoreUnavailable("Redis")

    monkeypatch.setattr(service, "look", away)
    with pytest.raises(StoreUnavailable):
        await service.tick()

    assert home.kept.number("task_queue_metrics") == 0


async def test_two_recorders_count_as_one(home: ArchivedHarness) -> None:
    await recorder(home).tick()
    for _ in range(10):
        await home.queue.enqueue("code")

    await asyncio.gather(*(recorder(home).tick() for _ in range(4)))

    (day,) = await home.queue.archive.metrics()
    assert day.tasks_created == 10


async def test_without_tables_it_says_what_to_do(valkey: Server, pg: Database) -> None:
    async with housed(valkey, pg) as home:
        pg.psql("DROP SCHEMA rqueue CASCADE")
        strange = Archive(lambda: pg.url)

        with pytest.raises(ConfigError, match="rqueue archive migrate"):
            await Recorder(home.queue._internals.shard, strange, home.queue.settings).tick()
        await strange.aclose()


async def test_it_is_in_the_roster_where_there_is_an_archive(valkey: Server, pg: Database) -> None:
    async with housed(valkey, pg) as home:
        names = {
            service.name
            for service in scheduler_services(home.queue._internals.service_parts, "s1")
        }
        assert {"archiver", "recorder"} <= names
        assert "pruner" not in names
    async with housed(valkey, pg, retention={"completed_days": 5}) as home:
        assert "pruner" in {
            service.name
            for service in scheduler_services(home.queue._internals.service_parts, "s1")
        }


def test_the_longest_silence_is_that_of_a_live_worker() -> None:
    live = WorkerRecord("a", 900, [Run("1", 400, 1000), Run("2", 900, 1000)])
    gone = WorkerRecord("b", 5000, [Run("1", 5000, 1000)])
    by_hand, left = WorkerRecord("c", 700), WorkerRecord("d", 10, left=True)

    assert longest_silence([live, gone, by_hand, left], 1000) == 0.9
    assert longest_silence([gone, left], 1000) is None
