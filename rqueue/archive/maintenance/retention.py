"""The retention of archived rows, unlimited by default, and the deletion of older ones.

The lives of a task are deleted in order: a later life stays while an earlier one exists. Tasks of a
DAG that has not ended stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from rqueue.archive.connection import SEARCH_SEC
from rqueue.task.state import State

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive
    from rqueue.clock import Clock
    from rqueue.settings.load import Settings

Days = Annotated[int, Field(ge=1, le=36_500)]
# The metrics of a day are computed from its minutes, which must exist until one day after its end.
MinuteDays = Annotated[int, Field(ge=2, le=36_500)]


class Retention(BaseModel):
    """Days that rows of the archive are kept after the end of their task; None keeps them
    permanently. The days of a dead task begin when it is resolved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    completed_days: Days | None = None
    cancelled_days: Days | None = None
    dead_days: Days | None = None
    agent_event_days: Days | None = None
    metrics_minute_days: MinuteDays | None = None

    @property
    def is_for_ever(self) -> bool:
        """Whether no rows are ever deleted."""
        return not any(days for _, days in self)

    def recounted_from(self, now: datetime) -> datetime:
        """Returns the oldest minute of which no rows have been deleted. Older minutes must not be
        counted again.
        """
        spans = [
            timedelta(days=days) - timedelta(hours=1)
            for days in (self.completed_days, self.cancelled_days, self.dead_days)
            if days is not None
        ]
        if self.metrics_minute_days is not None:
            spans.append(timedelta(days=self.metrics_minute_days - 1))
        return now - min(spans, default=timedelta(days=36_500))


# Rows of one state that ended before a time and whose idempotency keys are no longer valid. `since`
# is the position after the previous batch.
ENDED = """
SELECT t.id, t.life, t.finished_at FROM rqueue.task_lives t
WHERE t.queue = %(queue)s AND t.state = %(state)s AND t.discarded_at IS NULL
  AND t.finished_at >= %(since)s AND t.finished_at < %(before)s
  AND (t.idempotency_sha IS NULL OR t.finished_at < %(unkeyed)s)
  AND NOT EXISTS (SELECT FROM rqueue.task_lives e WHERE e.id = t.id AND e.life < t.life)
  AND NOT EXISTS (
    SELECT FROM rqueue.dags d WHERE d.id = t.dag_id AND d.finished_at IS NULL)
ORDER BY t.finished_at LIMIT %(limit)s
"""
# Dead tasks that were resolved before a time: discarded, or retried and not dead in their last
# life.
RESOLVED = """
SELECT t.id, t.life, t.finished_at FROM rqueue.task_lives t
WHERE t.queue = %(queue)s AND (t.state = 'DEAD_LETTERED' OR t.discarded_at IS NOT NULL)
  AND t.finished_at >= %(since)s AND t.finished_at < %(before)s
  AND NOT EXISTS (SELECT FROM rqueue.task_lives e WHERE e.id = t.id AND e.life < t.life)
  AND NOT EXISTS (
    SELECT FROM rqueue.dags d WHERE d.id = t.dag_id AND d.finished_at IS NULL)
  AND (SELECT coalesce(n.discarded_at, CASE WHEN n.state <> 'DEAD_LETTERED' THEN n.finished_at END)
    FROM rqueue.task_lives n WHERE n.id = t.id ORDER BY n.life DESC LIMIT 1) < %(before)s
ORDER BY t.finished_at LIMIT %(limit)s
"""
LIVES = """
DELETE FROM rqueue.task_lives t
USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
WHERE t.id = gone.id AND t.life = gone.life
RETURNING t.dag_id
"""
# Rows of other tables that belong to deleted lives.
BESIDE = (
    """
    DELETE FROM rqueue.embedding_jobs j
    USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
    WHERE j.task_id = gone.id AND j.life = gone.life
    """,
    """
    DELETE FROM rqueue.conflicts c
    USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
    WHERE c.id = gone.id AND c.life = gone.life
    """,
    """
    DELETE FROM rqueue.late_costs l
    USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
    WHERE l.task_id = gone.id AND l.life = gone.life
    """,
    """
    DELETE FROM rqueue.failed_attempts f WHERE f.task_id = ANY(%(ids)s::uuid[])
    AND NOT EXISTS (SELECT FROM rqueue.task_lives t WHERE t.id = f.task_id)
    """,
    """
    DELETE FROM rqueue.dags d WHERE d.id = ANY(%(dags)s::uuid[]) AND d.finished_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM rqueue.task_lives t WHERE t.dag_id = d.id)
    """,
)
EVENTS = """
DELETE FROM rqueue.life_events WHERE (task_id, life) IN (
  SELECT task_id, life FROM rqueue.life_events
  WHERE queue = %(queue)s AND at < %(before)s ORDER BY at LIMIT %(limit)s)
"""
MINUTES = """
DELETE FROM rqueue.task_queue_metrics WHERE queue = %(queue)s AND period = 'minute' AND start IN (
  SELECT start FROM rqueue.task_queue_metrics
  WHERE queue = %(queue)s AND period = 'minute' AND start < %(before)s
  ORDER BY start LIMIT %(limit)s)
"""
COUNT_EVENTS = """
SELECT count(*) FROM rqueue.life_events WHERE queue = %(queue)s AND at < %(before)s
"""
COUNT_MINUTES = """
SELECT count(*) FROM rqueue.task_queue_metrics
WHERE queue = %(queue)s AND period = 'minute' AND start < %(before)s
"""
# Rows deleted in one transaction, which limits how long locks are held.
TOGETHER = 2_000
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(slots=True)
class Pruned:
    """The number of deleted rows by kind, and of dropped empty months."""

    completed: int = 0
    cancelled: int = 0
    dead: int = 0
    agent_events: int = 0
    metrics_minutes: int = 0
    months: int = 0

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return sum(getattr(self, each.name) for each in fields(self))


class Kind(NamedTuple):
    """A kind of ended tasks: days that they are kept, the statement that finds older ones."""

    name: str
    days: int | None
    statement: str
    state: str = ""


class Pruning:
    """The rows of one queue that are older than the retention at one time. Any number of processes
    may delete them concurrently. A task with an idempotency key stays while the key is valid, for
    `window` after the end of the task.
    """

    def __init__(
        self,
        archive: Archive,
        queue: str,
        retention: Retention,
        *,
        now: datetime,
        window: timedelta = timedelta(0),
    ) -> None:
        self.archive = archive
        self.queue = queue
        self.retention = retention
        self.now = now
        self.window = window

    def kinds(self) -> Sequence[Kind]:
        """Returns the kinds of ended tasks. Dead ones come first, because later lives of a task can
        only be deleted after them.
        """
        policy = self.retention
        return (
            Kind("dead", policy.dead_days, RESOLVED),
            Kind("completed", policy.completed_days, ENDED, State.COMPLETED),
            Kind("cancelled", policy.cancelled_days, ENDED, State.CANCELLED),
        )

    async def prune(self) -> Pruned:
        """Deletes all these rows, in transactions of a few thousand rows. After an error, committed
        transactions stay and the next call continues.
        """
        done = Pruned()
        for kind in self.kinds():
            if kind.days is not None:
                setattr(done, kind.name, await self.delete_tasks(kind, kind.days))
        for name, days, statement in (
            ("agent_events", self.retention.agent_event_days, EVENTS),
            ("metrics_minutes", self.retention.metrics_minute_days, MINUTES),
        ):
            if days is not None:
                setattr(done, name, await self.delete_rows(statement, days))
        from rqueue.archive.schema import drop_empty  # noqa: PLC0415 - an extra

        async with self.archive.within(SEARCH_SEC) as connection:
            # One transaction per month, so that each lock is released before the next month.
            await connection.set_autocommit(True)
            done.months = await drop_empty(connection, self.now)
        return done

    async def delete_tasks(self, kind: Kind, days: int) -> int:
        """Deletes the ended tasks of a kind, with their rows in other tables."""
        facts = {**self.facts(days), "state": kind.state, "since": EPOCH}
        number = 0
        while True:
            async with self.archive.within(SEARCH_SEC) as connection, connection.transaction():
                text = f"{kind.statement} FOR UPDATE OF t SKIP LOCKED"
                cursor = await connection.execute(text.encode(), facts)
                found = await cursor.fetchall()
                await delete_lives(connection, found)
            number += len(found)
            if len(found) < TOGETHER:
                return number
            # The next batch does not read the rows again that stay.
            facts["since"] = found[-1][2]

    async def delete_rows(self, statement: str, days: int) -> int:
        """Deletes rows that no other rows depend on."""
        number = 0
        while True:
            async with self.archive.within(SEARCH_SEC) as connection, connection.transaction():
                cursor = await connection.execute(statement.encode(), self.facts(days))
                gone = cursor.rowcount
            number += gone
            if gone < TOGETHER:
                return number

    async def count(self) -> Pruned:
        """Counts the rows that `prune` would delete: only the first life of each task, and no
        months.
        """
        found = Pruned()
        async with self.archive.within(SEARCH_SEC) as connection:
            for kind in self.kinds():
                if kind.days is not None:
                    facts = {**self.facts(kind.days), "state": kind.state, "since": EPOCH}
                    facts["limit"] = None
                    text = f"SELECT count(*) FROM ({kind.statement}) AS found"
                    setattr(found, kind.name, await number_of(connection, text, facts))
            for name, days, statement in (
                ("agent_events", self.retention.agent_event_days, COUNT_EVENTS),
                ("metrics_minutes", self.retention.metrics_minute_days, COUNT_MINUTES),
            ):
                if days is not None:
                    number = await number_of(connection, statement, self.facts(days))
                    setattr(found, name, number)
        return found

    def facts(self, days: int) -> dict[str, Any]:
        """Returns the parameters of the statements."""
        return {
            "queue": self.queue,
            "before": self.now - timedelta(days=days),
            "unkeyed": self.now - self.window,
            "limit": TOGETHER,
        }


async def delete_lives(
    connection: AsyncConnection[Any], found: Sequence[tuple[Any, int, datetime]]
) -> None:
    """Deletes lives, and the rows of other tables that belong to them."""
    if not found:
        return
    facts: dict[str, Any] = {"ids": [row[0] for row in found], "lives": [row[1] for row in found]}
    cursor = await connection.execute(LIVES, facts)
    facts["dags"] = [dag for (dag,) in await cursor.fetchall() if dag is not None]
    for statement in BESIDE:
        await connection.execute(statement.encode(), facts)


async def number_of(connection: AsyncConnection[Any], text: str, facts: dict[str, Any]) -> int:
    """Returns the count that a statement selects."""
    cursor = await connection.execute(text.encode(), facts)
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


def pruning_of(
    archive: Archive, settings: Settings, retention: Retention | None = None, *, now: datetime
) -> Pruning:
    """Returns the pruning of a queue by its settings, or by another retention."""
    window = timedelta(seconds=settings.dedupe_window_sec)
    policy = retention or settings.retention
    return Pruning(archive, settings.name, policy, now=now, window=window)


class Pruner:
    """Deletes rows by the queue's retention. Any number may run: each skips locked rows."""

    name = "pruner"
    interval_sec = 3600.0

    def __init__(self, archive: Archive, settings: Settings, clock: Clock) -> None:
        self.archive = archive
        self.settings = settings
        self.clock = clock
        self.prepared = False

    async def tick(self) -> Pruned:
        """Deletes the rows that are older than the retention."""
        from rqueue.archive.schema import prepare  # noqa: PLC0415 - an extra

        now = self.clock.now()
        if not self.prepared:
            await prepare(self.archive, now)
            self.prepared = True
        return await pruning_of(self.archive, self.settings, now=now).prune()
