"""task_queue_metrics: written from the archive's own rows and a look at the queue, and read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rqueue.archive import rollup
from rqueue.model.metrics import Period, QueueMetrics

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive

# Longer than any transaction of an archiver: what it began to write before the last look.
MARGIN = timedelta(minutes=5)
# What ended before the first look of all is counted as far back as this.
BACKLOG = timedelta(days=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# Rows that are read together.
PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A queue at one moment: how many tasks it was ever given, and for how long the live worker
    has been silent that was so for longest; None without any.
    """

    at: datetime
    submitted: int
    delay_sec: float | None = None


async def record(
    archive: Archive, queue: str, look: Callable[[], Awaitable[Sample]], *, floor: datetime
) -> int:
    """Brings the metrics up to date; how many minutes were counted anew. None before `floor` is:
    not all that ended in it may still be there. Recorders take turns, and find nothing to do.
    """
    async with archive.within(archive.work_sec) as connection, connection.transaction():
        await connection.execute(rollup.LOCK, [queue])
        # Read while nobody else writes one: samples are in the order of their reading.
        sample = await look()
        starts = await touched(connection, queue, floor)
        await connection.execute(rollup.MINUTES, {"queue": queue, "starts": starts})
        begun = sample.at.replace(second=0, microsecond=0)
        facts = {"start": begun, "total": sample.submitted, "delay": sample.delay_sec}
        await connection.execute(rollup.SAMPLE, {"queue": queue, **facts})
        await roll_up(connection, queue, [*starts, begun])
    return len(starts)


async def touched(connection: AsyncConnection[Any], queue: str, floor: datetime) -> list[datetime]:
    """The minutes that are not what they were when they were recorded."""
    facts = {"queue": queue, "margin": MARGIN, "backlog": BACKLOG, "floor": floor}
    cursor = await connection.execute(rollup.TOUCHED, facts)
    return [start for (start,) in await cursor.fetchall()]


async def roll_up(
    connection: AsyncConnection[Any], queue: str, minutes: Sequence[datetime]
) -> None:
    """Makes the hours and days of these minutes anew."""
    hours = sorted({minute.replace(minute=0) for minute in minutes})
    days = sorted({hour.replace(hour=0) for hour in hours})
    for smaller, larger, starts, length in (
        ("minute", "hour", hours, HOUR),
        ("hour", "day", days, DAY),
    ):
        facts = {"smaller": smaller, "larger": larger, "starts": starts, "length": length}
        await connection.execute(rollup.LARGER, {"queue": queue, **facts})


async def read_metrics(
    archive: Archive, queue: str, period: Period, *, since: datetime, until: datetime
) -> list[QueueMetrics]:
    """The rows of a time, the oldest first."""
    found: list[QueueMetrics] = []
    facts = {"queue": queue, "period": period, "since": since, "until": until, "limit": PAGE}
    while True:
        async with archive.connection() as connection:
            cursor = await connection.execute(rollup.READ, facts)
            page = [QueueMetrics(*row) for row in await cursor.fetchall()]
        found += page
        if len(page) < PAGE:
            return found
        facts["since"] = page[-1].start + timedelta.resolution
