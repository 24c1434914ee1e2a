"""The recorder: samples of a queue, and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.archive.connection import Archive
from rqueue.archive.maintenance.metrics import Recorder, longest_silence
from rqueue.core.workers import Run, WorkerRecord
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.services import scheduler_services
from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def archived(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    async with archived_harness(valkey, pg) as found:
        yield found


def recorder(archived: ArchivedHarness) -> Recorder:
    return Recorder(
        archived.queue._internals.shard, archived.tables.archive, archived.queue.settings
    )


async def test_new_and_ended_tasks_are_counted_in_their_day(archived: ArchivedHarness) -> None:
    service = recorder(archived)
    await service.tick()
    for _ in range(3):
        await archived.ended(agent_name=None)
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await archived.archiver.tick()

    done = await service.tick()

    (day,) = await archived.queue.archive.metrics()
    assert done.minutes >= 1
    assert (day.tasks_created, day.tasks_completed, day.tasks_failed) == (4, 3, 1)
    assert day.average_latency is not None
    assert day.worker_heartbeat_delay is not None
    assert day.error_rates_per_agent == {"w1": 0.25}


async def test_after_a_loss_of_data_counting_continues_from_the_lower_value(
    archived: ArchivedHarness,
) -> None:
    service = recorder(archived)
    for _ in range(5):
        await archived.queue.enqueue("code")
    await service.tick()
    await archived.harness.client.flushall()
    await archived.queue.enqueue("code")
    await service.tick()
    await archived.queue.enqueue("code")
    await service.tick()

    (day,) = await archived.queue.archive.metrics()

    assert day.tasks_created == 1


async def test_nothing_is_written_if_redis_becomes_unavailable(
    archived: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = recorder(archived)

    async def unavailable() -> None:
        raise StoreUnavailable("Redis")

    monkeypatch.setattr(service, "sample", unavailable)
    with pytest.raises(StoreUnavailable):
        await service.tick()

    assert archived.tables.number("task_queue_metrics") == 0


async def test_two_recorders_count_as_one(archived: ArchivedHarness) -> None:
    await recorder(archived).tick()
    for _ in range(10):
        await archived.queue.enqueue("code")

    await asyncio.gather(*(recorder(archived).tick() for _ in range(4)))

    (day,) = await archived.queue.archive.metrics()
    assert day.tasks_created == 10


async def test_missing_tables_name_the_migrate_command(valkey: Server, pg: Database) -> None:
    async with archived_harness(valkey, pg) as archived:
        pg.psql("DROP SCHEMA rqueue CASCADE")
        strange = Archive(lambda: pg.url)

        with pytest.raises(ConfigError, match="rqueue archive migrate"):
            await Recorder(archived.queue._internals.shard, strange, archived.queue.settings).tick()
        await strange.aclose()


async def test_the_scheduler_runs_it_if_there_is_an_archive(valkey: Server, pg: Database) -> None:
    async with archived_harness(valkey, pg) as archived:
        names = {
            service.name
            for service in scheduler_services(archived.queue._internals.service_parts, "s1")
        }
        assert {"archiver", "recorder"} <= names
        assert "pruner" not in names
    async with archived_harness(valkey, pg, retention={"completed_days": 5}) as archived:
        assert "pruner" in {
            service.name
            for service in scheduler_services(archived.queue._internals.service_parts, "s1")
        }


def test_the_longest_silence_is_that_of_a_live_worker() -> None:
    live = WorkerRecord("a", 900, [Run("1", 400, 1000), Run("2", 900, 1000)])
    gone = WorkerRecord("b", 5000, [Run("1", 5000, 1000)])
    by_hand, left = WorkerRecord("c", 700), WorkerRecord("d", 10, left=True)

    assert longest_silence([live, gone, by_hand, left], 1000) == 0.9
    assert longest_silence([gone, left], 1000) is None
