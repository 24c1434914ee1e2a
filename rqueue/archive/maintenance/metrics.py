"""Metrics of a queue for each minute, hour and day, in the table task_queue_metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from rqueue.archive.schema import prepare
from rqueue.core.counts import tally
from rqueue.core.timers import read_last_check
from rqueue.core.workers import WorkerStatus, read_fleet, run_status, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive
    from rqueue.core.workers import WorkerRecord
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard


Period = Literal["minute", "hour", "day"]


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """One row of task_queue_metrics. `average_latency` is the seconds from creation to completion.
    `worker_heartbeat_delay` is the longest time in seconds since the last heartbeat of a live
    worker. Both are None without a value. `error_rates_per_agent` is the share of each agent's
    attempts that failed.
    """

    period: Period
    start: datetime
    tasks_created: int = 0
    tasks_completed: int = 0
    tasks_failed: int = 0
    average_latency: float | None = None
    worker_heartbeat_delay: float | None = None
    error_rates_per_agent: dict[str, float] = field(default_factory=dict)


LOCK = "SELECT pg_advisory_xact_lock(1700395893, hashtext(%s))"
# A task that was archived since the last recording may have ended long ago, and its attempts may
# have failed long before it ended.
TOUCHED = """
WITH late AS (
  SELECT id, finished_at FROM rqueue.task_lives
  WHERE queue = %(queue)s AND archived_at >= coalesce(
    (SELECT max(recorded_at) FROM rqueue.task_queue_metrics
      WHERE queue = %(queue)s AND period = 'minute') - %(margin)s,
    now() - %(backlog)s))
SELECT DISTINCT date_trunc('minute', at, 'UTC') FROM (
  SELECT finished_at AS at FROM late
  UNION ALL
  SELECT f.at FROM late JOIN rqueue.failed_attempts f ON f.task_id = late.id) AS touched
WHERE at >= %(floor)s
ORDER BY 1
"""
MINUTES = """
WITH minute AS (SELECT unnest(%(starts)s::timestamptz[]) AS start),
ended AS (
  SELECT m.start, t.state, t.discarded_at, t.created_at, t.finished_at,
    coalesce(t.agent_name, t.worker, 'nobody') AS agent
  FROM minute m JOIN rqueue.task_lives t ON t.queue = %(queue)s
    AND t.finished_at >= m.start AND t.finished_at < m.start + interval '1 minute'),
counted AS (
  SELECT start,
    count(*) FILTER (WHERE state = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE state = 'DEAD_LETTERED' OR discarded_at IS NOT NULL) AS failed,
    (avg(extract(epoch FROM finished_at - created_at)) FILTER (WHERE state = 'COMPLETED'))::float8
      AS latency
  FROM ended GROUP BY start),
tries AS (
  SELECT start, agent, 0 AS failed FROM ended WHERE state = 'COMPLETED'
  UNION ALL
  SELECT m.start, coalesce(
      (SELECT t.agent_name FROM rqueue.task_lives t WHERE t.id = f.task_id LIMIT 1),
      f.agent, 'nobody'), 1
  FROM minute m JOIN rqueue.failed_attempts f ON f.queue = %(queue)s
    AND f.at >= m.start AND f.at < m.start + interval '1 minute'),
agents AS (
  SELECT start, jsonb_object_agg(agent, jsonb_build_array(failed, tried)) AS attempts,
    jsonb_object_agg(agent, round(failed::numeric / tried, 6)) AS rates
  FROM (SELECT start, agent, sum(failed) AS failed, count(*) AS tried FROM tries GROUP BY 1, 2) a
  GROUP BY start)
INSERT INTO rqueue.task_queue_metrics AS t (
  queue, period, start, tasks_completed, tasks_failed, average_latency, error_rates_per_agent,
  attempts_per_agent)
SELECT %(queue)s, 'minute', start, coalesce(completed, 0), coalesce(failed, 0), latency,
  coalesce(rates, '{}'), coalesce(attempts, '{}')
FROM minute LEFT JOIN counted USING (start) LEFT JOIN agents USING (start)
ON CONFLICT (queue, period, start) DO UPDATE SET
  tasks_completed = EXCLUDED.tasks_completed, tasks_failed = EXCLUDED.tasks_failed,
  average_latency = EXCLUDED.average_latency,
  error_rates_per_agent = EXCLUDED.error_rates_per_agent,
  attempts_per_agent = EXCLUDED.attempts_per_agent, recorded_at = now()
"""
# A counter that is lower than the last sample was reset or has lost its last seconds: counting
# continues from the lower value. Tasks before the first sample are not counted.
SAMPLE = """
WITH before AS (
  SELECT submitted_total AS total FROM rqueue.task_queue_metrics
  WHERE queue = %(queue)s AND sampled_at IS NOT NULL ORDER BY sampled_at DESC LIMIT 1)
INSERT INTO rqueue.task_queue_metrics AS t (
  queue, period, start, tasks_created, worker_heartbeat_delay, submitted_total, sampled_at)
VALUES (%(queue)s, 'minute', %(start)s,
  greatest(0, %(total)s - coalesce((SELECT total FROM before), %(total)s)), %(delay)s, %(total)s,
  clock_timestamp())
ON CONFLICT (queue, period, start) DO UPDATE SET
  tasks_created = t.tasks_created + EXCLUDED.tasks_created,
  worker_heartbeat_delay = greatest(t.worker_heartbeat_delay, EXCLUDED.worker_heartbeat_delay),
  submitted_total = EXCLUDED.submitted_total, sampled_at = EXCLUDED.sampled_at,
  recorded_at = now()
"""
# Aggregates minutes to hours, and hours to days.
LARGER = """
WITH whole AS (SELECT unnest(%(starts)s::timestamptz[]) AS start),
part AS (
  SELECT w.start AS whole, m.* FROM whole w JOIN rqueue.task_queue_metrics m
    ON m.queue = %(queue)s AND m.period = %(smaller)s
    AND m.start >= w.start AND m.start < w.start + %(length)s::interval),
counted AS (
  SELECT whole AS start, sum(tasks_created) AS created, sum(tasks_completed) AS completed,
    sum(tasks_failed) AS failed, sum(average_latency * tasks_completed)
      / nullif(sum(tasks_completed) FILTER (WHERE average_latency IS NOT NULL), 0) AS latency,
    max(worker_heartbeat_delay) AS delay
  FROM part GROUP BY whole),
agents AS (
  SELECT start, jsonb_object_agg(agent, jsonb_build_array(failed, tried)) AS attempts,
    jsonb_object_agg(agent, round(failed / tried, 6)) AS rates
  FROM (
    SELECT whole AS start, key AS agent, sum((value ->> 0)::numeric) AS failed,
      sum((value ->> 1)::numeric) AS tried
    FROM part, jsonb_each(attempts_per_agent) GROUP BY 1, 2) a
  GROUP BY start)
INSERT INTO rqueue.task_queue_metrics (
  queue, period, start, tasks_created, tasks_completed, tasks_failed, average_latency,
  worker_heartbeat_delay, error_rates_per_agent, attempts_per_agent)
SELECT %(queue)s, %(larger)s, start, created, completed, failed, latency, delay,
  coalesce(rates, '{}'), coalesce(attempts, '{}')
FROM counted LEFT JOIN agents USING (start)
ON CONFLICT (queue, period, start) DO UPDATE SET
  tasks_created = EXCLUDED.tasks_created, tasks_completed = EXCLUDED.tasks_completed,
  tasks_failed = EXCLUDED.tasks_failed, average_latency = EXCLUDED.average_latency,
  worker_heartbeat_delay = EXCLUDED.worker_heartbeat_delay,
  error_rates_per_agent = EXCLUDED.error_rates_per_agent,
  attempts_per_agent = EXCLUDED.attempts_per_agent, recorded_at = now()
"""
READ = """
SELECT period, start, tasks_created, tasks_completed, tasks_failed, average_latency,
  worker_heartbeat_delay, error_rates_per_agent
FROM rqueue.task_queue_metrics
WHERE queue = %(queue)s AND period = %(period)s AND start >= %(since)s AND start < %(until)s
ORDER BY start LIMIT %(limit)s
"""
# Longer than any transaction of an archiver: a transaction that had begun before the last recording
# may have committed after it.
MARGIN = timedelta(minutes=5)
# The first recording counts tasks that ended within this time.
BACKLOG = timedelta(days=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# Rows that are read together.
PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A queue at one time: the number of tasks ever submitted, and the longest time since the last
    heartbeat of a live worker, None without one.
    """

    at: datetime
    submitted: int
    delay_sec: float | None = None


async def record(
    archive: Archive, queue: str, take_sample: Callable[[], Awaitable[Sample]], *, floor: datetime
) -> int:
    """Updates the metrics and returns the number of minutes that were counted again. Minutes before
    `floor` are not, because some of their rows may be deleted. Concurrent recorders wait for each
    other and then find nothing to do.
    """
    async with archive.within(archive.work_sec) as connection, connection.transaction():
        await connection.execute(LOCK, [queue])
        # Read under the lock, so that samples are written in the order in which they were read.
        sample = await take_sample()
        starts = await touched(connection, queue, floor)
        await connection.execute(MINUTES, {"queue": queue, "starts": starts})
        begun = sample.at.replace(second=0, microsecond=0)
        facts = {"start": begun, "total": sample.submitted, "delay": sample.delay_sec}
        await connection.execute(SAMPLE, {"queue": queue, **facts})
        await roll_up(connection, queue, [*starts, begun])
    return len(starts)


async def touched(connection: AsyncConnection[Any], queue: str, floor: datetime) -> list[datetime]:
    """Returns the minutes whose counts may have changed since they were recorded."""
    facts = {"queue": queue, "margin": MARGIN, "backlog": BACKLOG, "floor": floor}
    cursor = await connection.execute(TOUCHED, facts)
    return [start for (start,) in await cursor.fetchall()]


async def roll_up(
    connection: AsyncConnection[Any], queue: str, minutes: Sequence[datetime]
) -> None:
    """Recomputes the hours and days of these minutes."""
    hours = sorted({minute.replace(minute=0) for minute in minutes})
    days = sorted({hour.replace(hour=0) for hour in hours})
    for smaller, larger, starts, length in (
        ("minute", "hour", hours, HOUR),
        ("hour", "day", days, DAY),
    ):
        facts = {"smaller": smaller, "larger": larger, "starts": starts, "length": length}
        await connection.execute(LARGER, {"queue": queue, **facts})


async def read_metrics(
    archive: Archive, queue: str, period: Period, *, since: datetime, until: datetime
) -> list[QueueMetrics]:
    """Returns the rows of a time range, oldest first."""
    found: list[QueueMetrics] = []
    facts = {"queue": queue, "period": period, "since": since, "until": until, "limit": PAGE}
    while True:
        async with archive.connection() as connection:
            cursor = await connection.execute(READ, facts)
            page = [QueueMetrics(*row) for row in await cursor.fetchall()]
        found += page
        if len(page) < PAGE:
            return found
        facts["since"] = page[-1].start + timedelta.resolution


@dataclass(slots=True)
class Recorded:
    """The result of one tick: the number of minutes that were counted again."""

    minutes: int = 0


class Recorder:
    """Records the metrics: ended tasks from the rows of the archive, new tasks from the counter of
    the queue. Tasks that are archived late are counted in the minute in which they ended. Any
    number may run.
    """

    name = "recorder"
    interval_sec = 30.0

    def __init__(self, shard: Shard, archive: Archive, settings: Settings) -> None:
        self.shard = shard
        self.archive = archive
        self.settings = settings
        self.prepared = False

    async def tick(self) -> Recorded:
        """Updates the metrics."""
        now = await self.now()
        if not self.prepared:
            await prepare(self.archive, now)
            self.prepared = True
        floor = self.settings.retention.recounted_from(now)
        name = self.settings.name
        return Recorded(await record(self.archive, name, self.sample, floor=floor))

    async def sample(self) -> Sample:
        """Returns a sample of the queue."""
        counters = (await tally(self.shard)).counters
        fleet = await read_fleet(self.shard)
        delay = longest_silence(fleet, self.shard.terms.lease_ms)
        return Sample(await self.now(), counters.get("submitted", 0), delay)

    async def now(self) -> datetime:
        """Returns the time of the Redis server, which also sets the end times of tasks."""
        now_ms, _ = await read_last_check(self.shard)
        return datetime.fromtimestamp(now_ms / 1000, UTC)


def longest_silence(fleet: Iterable[WorkerRecord], lease_ms: int) -> float | None:
    """Returns the longest time in seconds since the last heartbeat of a live worker; None without
    one.
    """
    silent: list[int] = []
    for known in fleet:
        live = [run.silent_ms for run in known.runs if run_status(run) is not WorkerStatus.OFFLINE]
        if not known.runs and status_of(known, lease_ms) is not WorkerStatus.OFFLINE:
            live = [known.silent_ms]
        silent += live
    return max(silent) / 1000 if silent else None
