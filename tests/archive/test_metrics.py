"""task_queue_metrics: counted from rows, again and again, and never wrong for it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from rqueue.archive.maintenance import metrics
from rqueue.archive.maintenance.metrics import Period, QueueMetrics, Sample, read_metrics, record
from rqueue.errors import StoreUnavailable
from tests.archive.kept import NOON, QUEUE, Kept
from tests.archive.kept import opened as open_archive
from tests.postgres import Database

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LONG_AGO = NOON - timedelta(days=400)


async def recorded(
    kept: Kept, at: datetime = NOON, *, submitted: int = 0, delay: float | None = None,
    floor: datetime = LONG_AGO,
) -> int:  # fmt: skip
    async def look() -> Sample:
        return Sample(at, submitted, delay)

    return await record(kept.archive, QUEUE, look, floor=floor)


async def rows(kept: Kept, period: Period = "minute") -> dict[datetime, QueueMetrics]:
    until = NOON + timedelta(days=400)
    found = await read_metrics(kept.archive, QUEUE, period, since=LONG_AGO, until=until)
    return {row.start: row for row in found}


async def test_what_ended_in_a_minute_is_counted_in_it(kept: Kept) -> None:
    kept.life(NOON, created=NOON - timedelta(seconds=4))
    kept.life(NOON + timedelta(seconds=59.999), created=NOON + timedelta(seconds=49.999))
    kept.life(NOON + MINUTE, "DEAD_LETTERED")
    kept.life(NOON + MINUTE, "CANCELLED")
    kept.life(NOON, queue="other")

    assert await recorded(kept) == 2

    found = await rows(kept)
    first, second = found[NOON], found[NOON + MINUTE]
    assert (first.tasks_completed, first.tasks_failed, first.average_latency) == (2, 0, 7.0)
    assert (second.tasks_completed, second.tasks_failed, second.average_latency) == (0, 1, None)


async def test_hours_and_days_are_made_of_their_minutes(kept: Kept) -> None:
    kept.life(NOON, created=NOON - timedelta(seconds=1))
    for _ in range(3):
        later = NOON + HOUR + 59 * MINUTE
        kept.life(later, created=later - timedelta(seconds=5))
    midnight = NOON.replace(hour=0) + timedelta(days=1)
    kept.life(midnight)

    await recorded(kept, delay=2.5)

    hours, days = await rows(kept, "hour"), await rows(kept, "day")
    assert [(start, row.tasks_completed) for start, row in hours.items()] == [
        (NOON, 1), (NOON + HOUR, 3), (midnight, 1),
    ]  # fmt: skip
    whole = days[NOON.replace(hour=0)]
    assert (whole.tasks_completed, whole.average_latency) == (4, 4.0)
    assert whole.worker_heartbeat_delay == 2.5
    assert days[midnight].tasks_completed == 1


async def test_rates_are_failed_attempts_of_all(kept: Kept) -> None:
    task = kept.life(NOON, agent="coder")
    kept.failure(task, NOON - HOUR, epoch=1)
    kept.failure(task, NOON, epoch=2)
    kept.life(NOON, worker="w2")
    dead = kept.life(NOON + MINUTE, "DEAD_LETTERED")
    kept.failure(dead, NOON + MINUTE, agent="w2")

    await recorded(kept)

    minutes, days = await rows(kept), await rows(kept, "day")
    assert minutes[NOON - HOUR].error_rates_per_agent == {"coder": 1}
    assert minutes[NOON].error_rates_per_agent == {"coder": 0.5, "w2": 0}
    assert days[NOON.replace(hour=0)].error_rates_per_agent == {"coder": 0.666667, "w2": 0.5}


async def test_all_rows_of_a_time_are_read_however_many(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "PAGE", 3)
    for at in range(6):
        await recorded(kept, NOON + at * MINUTE)

    found = await rows(kept)

    assert list(found) == [NOON + at * MINUTE for at in range(6)]


async def test_recorded_again_it_says_the_same(kept: Kept) -> None:
    kept.life(NOON)
    await recorded(kept, submitted=5, delay=1.0)
    await recorded(kept, submitted=8)
    before = [await rows(kept, period) for period in ("minute", "hour", "day")]

    await recorded(kept, submitted=8)

    assert [await rows(kept, period) for period in ("minute", "hour", "day")] == before
    assert before[2][NOON.replace(hour=0)].tasks_created == 3


async def test_what_the_archive_learns_late_is_counted_where_it_ended(kept: Kept) -> None:
    await recorded(kept, NOON)
    kept.life(NOON - timedelta(days=3))
    kept.life(NOON - timedelta(days=3), discarded=NOON, state="CANCELLED")

    await recorded(kept, NOON + MINUTE)

    late = (await rows(kept, "day"))[NOON.replace(hour=0) - timedelta(days=3)]
    assert (late.tasks_completed, late.tasks_failed) == (1, 1)


async def test_what_was_archived_before_the_last_look_is_not_counted_anew(kept: Kept) -> None:
    await recorded(kept, NOON)
    kept.life(NOON)
    kept.database.psql("UPDATE rqueue.task_lives SET archived_at = now() - interval '1 hour'")

    assert await recorded(kept, NOON + MINUTE) == 0


async def test_a_minute_of_which_rows_are_gone_is_left_as_it_is(kept: Kept) -> None:
    old = NOON - timedelta(days=30)
    kept.life(old)
    kept.life(old)
    await recorded(kept)
    kept.database.psql("DELETE FROM rqueue.task_lives")
    kept.life(old)

    await recorded(kept, floor=NOON - timedelta(days=29))

    assert (await rows(kept))[old].tasks_completed == 2


async def test_created_is_counted_on_from_the_look_before(kept: Kept) -> None:
    await recorded(kept, NOON, submitted=1000)
    await recorded(kept, NOON + 3 * MINUTE, submitted=1007)
    await recorded(kept, NOON + 3 * MINUTE, submitted=1010)

    found = await rows(kept)

    assert {start: row.tasks_created for start, row in found.items()} == {
        NOON: 0, NOON + 3 * MINUTE: 10,
    }  # fmt: skip
    assert (await rows(kept, "hour"))[NOON].tasks_created == 10


async def test_a_counter_that_began_anew_is_no_negative_number(kept: Kept) -> None:
    for at, submitted in enumerate((1000, 1005, 3, 10)):
        await recorded(kept, NOON + at * MINUTE, submitted=submitted)

    created = [row.tasks_created for row in (await rows(kept)).values()]

    assert created == [0, 5, 0, 7]


async def test_a_clock_that_went_back_counts_nothing_twice(kept: Kept) -> None:
    await recorded(kept, NOON, submitted=100)
    await recorded(kept, NOON + 5 * MINUTE, submitted=110)
    await recorded(kept, NOON + 2 * MINUTE, submitted=115)
    await recorded(kept, NOON + 6 * MINUTE, submitted=120)

    assert (await rows(kept, "hour"))[NOON].tasks_created == 20


async def test_the_longest_silence_of_a_minute_stays(kept: Kept) -> None:
    for delay in (1.0, 7.0, None, 2.0):
        await recorded(kept, delay=delay)

    assert (await rows(kept))[NOON].worker_heartbeat_delay == 7.0


async def test_two_recorders_at_once_count_as_one(kept: Kept) -> None:
    for at in range(20):
        kept.life(NOON + at * MINUTE)
    counter = iter(range(100, 200))
    await recorded(kept, NOON, submitted=99)

    async def look() -> Sample:
        return Sample(NOON, next(counter))

    looks = [record(kept.archive, QUEUE, look, floor=LONG_AGO) for _ in range(8)]
    await asyncio.gather(*looks)

    found = (await rows(kept, "hour"))[NOON]
    assert (found.tasks_created, found.tasks_completed) == (8, 20)


async def test_a_look_that_fails_writes_nothing(kept: Kept) -> None:
    kept.life(NOON)

    async def away() -> Sample:
        raise StoreUnavailable("Redis")

    with pytest.raises(StoreUnavailable):
        await record(kept.archive, QUEUE, away, floor=LONG_AGO)

    assert await rows(kept) == {}
    assert await recorded(kept) == 1


async def test_a_server_that_goes_away_in_the_middle_leaves_nothing_half_done(
    own_pg: Database,
) -> None:
    async with open_archive(own_pg) as kept:
        kept.life(NOON)
        kept.archive.timeout_sec = 2

        async def dying() -> Sample:
            own_pg.kill()
            return Sample(NOON, 5)

        with pytest.raises(StoreUnavailable):
            await record(kept.archive, QUEUE, dying, floor=LONG_AGO)
        own_pg.start()

        assert kept.number("task_queue_metrics") == 0
        await recorded(kept, submitted=5)
        assert (await rows(kept))[NOON].tasks_completed == 1
