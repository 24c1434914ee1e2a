"""task_queue_metrics: repeated counting of rows gives the same counts."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from rqueue.archive.maintenance import metrics
from rqueue.archive.maintenance.metrics import Period, QueueMetrics, Sample, read_metrics, record
from rqueue.errors import StoreUnavailable
from tests.archive.tables import NOON, QUEUE, ArchiveTables
from tests.archive.tables import opened as open_archive
from tests.postgres import Database

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LONG_AGO = NOON - timedelta(days=400)


async def recorded(
    tables: ArchiveTables, at: datetime = NOON, *, submitted: int = 0, delay: float | None = None,
    floor: datetime = LONG_AGO,
) -> int:  # fmt: skip
    async def sample() -> Sample:
        return Sample(at, submitted, delay)

    return await record(tables.archive, QUEUE, sample, floor=floor)


async def rows(tables: ArchiveTables, period: Period = "minute") -> dict[datetime, QueueMetrics]:
    until = NOON + timedelta(days=400)
    found = await read_metrics(tables.archive, QUEUE, period, since=LONG_AGO, until=until)
    return {row.start: row for row in found}


async def test_tasks_are_counted_in_the_minute_of_their_end(tables: ArchiveTables) -> None:
    tables.life(NOON, created=NOON - timedelta(seconds=4))
    tables.life(NOON + timedelta(seconds=59.999), created=NOON + timedelta(seconds=49.999))
    tables.life(NOON + MINUTE, "DEAD_LETTERED")
    tables.life(NOON + MINUTE, "CANCELLED")
    tables.life(NOON, queue="other")

    assert await recorded(tables) == 2

    found = await rows(tables)
    first, second = found[NOON], found[NOON + MINUTE]
    assert (first.tasks_completed, first.tasks_failed, first.average_latency) == (2, 0, 7.0)
    assert (second.tasks_completed, second.tasks_failed, second.average_latency) == (0, 1, None)


async def test_hours_and_days_are_sums_of_their_minutes(tables: ArchiveTables) -> None:
    tables.life(NOON, created=NOON - timedelta(seconds=1))
    for _ in range(3):
        later = NOON + HOUR + 59 * MINUTE
        tables.life(later, created=later - timedelta(seconds=5))
    midnight = NOON.replace(hour=0) + timedelta(days=1)
    tables.life(midnight)

    await recorded(tables, delay=2.5)

    hours, days = await rows(tables, "hour"), await rows(tables, "day")
    assert [(start, row.tasks_completed) for start, row in hours.items()] == [
        (NOON, 1), (NOON + HOUR, 3), (midnight, 1),
    ]  # fmt: skip
    whole = days[NOON.replace(hour=0)]
    assert (whole.tasks_completed, whole.average_latency) == (4, 4.0)
    assert whole.worker_heartbeat_delay == 2.5
    assert days[midnight].tasks_completed == 1


async def test_error_rates_are_shares_of_failed_attempts(tables: ArchiveTables) -> None:
    task = tables.life(NOON, agent="coder")
    tables.failure(task, NOON - HOUR, epoch=1)
    tables.failure(task, NOON, epoch=2)
    tables.life(NOON, worker="w2")
    dead = tables.life(NOON + MINUTE, "DEAD_LETTERED")
    tables.failure(dead, NOON + MINUTE, agent="w2")

    await recorded(tables)

    minutes, days = await rows(tables), await rows(tables, "day")
    assert minutes[NOON - HOUR].error_rates_per_agent == {"coder": 1}
    assert minutes[NOON].error_rates_per_agent == {"coder": 0.5, "w2": 0}
    assert days[NOON.replace(hour=0)].error_rates_per_agent == {"coder": 0.666667, "w2": 0.5}


async def test_all_pages_of_a_time_range_are_read(
    tables: ArchiveTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "PAGE", 3)
    for at in range(6):
        await recorded(tables, NOON + at * MINUTE)

    found = await rows(tables)

    assert list(found) == [NOON + at * MINUTE for at in range(6)]


async def test_a_repeated_recording_changes_nothing(tables: ArchiveTables) -> None:
    tables.life(NOON)
    await recorded(tables, submitted=5, delay=1.0)
    await recorded(tables, submitted=8)
    before = [await rows(tables, period) for period in ("minute", "hour", "day")]

    await recorded(tables, submitted=8)

    assert [await rows(tables, period) for period in ("minute", "hour", "day")] == before
    assert before[2][NOON.replace(hour=0)].tasks_created == 3


async def test_a_task_archived_late_is_counted_in_the_minute_of_its_end(
    tables: ArchiveTables,
) -> None:
    await recorded(tables, NOON)
    tables.life(NOON - timedelta(days=3))
    tables.life(NOON - timedelta(days=3), discarded=NOON, state="CANCELLED")

    await recorded(tables, NOON + MINUTE)

    late = (await rows(tables, "day"))[NOON.replace(hour=0) - timedelta(days=3)]
    assert (late.tasks_completed, late.tasks_failed) == (1, 1)


async def test_minutes_without_newly_archived_tasks_are_not_counted_again(
    tables: ArchiveTables,
) -> None:
    await recorded(tables, NOON)
    tables.life(NOON)
    tables.database.psql("UPDATE rqueue.task_lives SET archived_at = now() - interval '1 hour'")

    assert await recorded(tables, NOON + MINUTE) == 0


async def test_a_minute_with_pruned_rows_is_not_counted_again(tables: ArchiveTables) -> None:
    old = NOON - timedelta(days=30)
    tables.life(old)
    tables.life(old)
    await recorded(tables)
    tables.database.psql("DELETE FROM rqueue.task_lives")
    tables.life(old)

    await recorded(tables, floor=NOON - timedelta(days=29))

    assert (await rows(tables))[old].tasks_completed == 2


async def test_created_tasks_are_counted_since_the_last_sample(tables: ArchiveTables) -> None:
    await recorded(tables, NOON, submitted=1000)
    await recorded(tables, NOON + 3 * MINUTE, submitted=1007)
    await recorded(tables, NOON + 3 * MINUTE, submitted=1010)

    found = await rows(tables)

    assert {start: row.tasks_created for start, row in found.items()} == {
        NOON: 0, NOON + 3 * MINUTE: 10,
    }  # fmt: skip
    assert (await rows(tables, "hour"))[NOON].tasks_created == 10


async def test_a_reset_counter_counts_nothing_negative(tables: ArchiveTables) -> None:
    for at, submitted in enumerate((1000, 1005, 3, 10)):
        await recorded(tables, NOON + at * MINUTE, submitted=submitted)

    created = [row.tasks_created for row in (await rows(tables)).values()]

    assert created == [0, 5, 0, 7]


async def test_a_clock_set_back_counts_nothing_twice(tables: ArchiveTables) -> None:
    await recorded(tables, NOON, submitted=100)
    await recorded(tables, NOON + 5 * MINUTE, submitted=110)
    await recorded(tables, NOON + 2 * MINUTE, submitted=115)
    await recorded(tables, NOON + 6 * MINUTE, submitted=120)

    assert (await rows(tables, "hour"))[NOON].tasks_created == 20


async def test_the_longest_heartbeat_delay_of_a_minute_is_stored(tables: ArchiveTables) -> None:
    for delay in (1.0, 7.0, None, 2.0):
        await recorded(tables, delay=delay)

    assert (await rows(tables))[NOON].worker_heartbeat_delay == 7.0


async def test_concurrent_recorders_count_once(tables: ArchiveTables) -> None:
    for at in range(20):
        tables.life(NOON + at * MINUTE)
    counter = iter(range(100, 200))
    await recorded(tables, NOON, submitted=99)

    async def sample() -> Sample:
        return Sample(NOON, next(counter))

    recordings = [record(tables.archive, QUEUE, sample, floor=LONG_AGO) for _ in range(8)]
    await asyncio.gather(*recordings)

    found = (await rows(tables, "hour"))[NOON]
    assert (found.tasks_created, found.tasks_completed) == (8, 20)


async def test_a_failed_sample_writes_nothing(tables: ArchiveTables) -> None:
    tables.life(NOON)

    async def unavailable() -> Sample:
        raise StoreUnavailable("Redis")

    with pytest.raises(StoreUnavailable):
        await record(tables.archive, QUEUE, unavailable, floor=LONG_AGO)

    assert await rows(tables) == {}
    assert await recorded(tables) == 1


async def test_a_killed_server_leaves_no_partial_recording(
    own_pg: Database,
) -> None:
    async with open_archive(own_pg) as tables:
        tables.life(NOON)
        tables.archive.timeout_sec = 2

        async def crashing() -> Sample:
            own_pg.kill()
            return Sample(NOON, 5)

        with pytest.raises(StoreUnavailable):
            await record(tables.archive, QUEUE, crashing, floor=LONG_AGO)
        own_pg.start()

        assert tables.number("task_queue_metrics") == 0
        await recorded(tables, submitted=5)
        assert (await rows(tables))[NOON].tasks_completed == 1
