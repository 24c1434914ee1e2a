"""The statements that find and delete what the archive need not keep any longer.

A task goes from its first life on: a later one stays while an earlier one does, and what belongs to
a DAG that is not over stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.retention import Retention, before
from rqueue.archive.schema import drop_empty, prepare
from rqueue.task.state import State

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive
    from rqueue.clock import Clock
    from rqueue.settings.load import Settings


# Rows of one state that ended before a time, and before their keys were forgotten. `since` is where
# the batch before stopped.
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
# Dead ones that are resolved: discarded before a time, or given another life, of which the last
# ended before it and is not dead itself.
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
# What nobody could tell the meaning of without its row.
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
# Rows of one transaction: no lock is held for longer than these take.
TOGETHER = 2_000
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(slots=True)
class Pruned:
    """How many rows went, by kind, and how many months with nothing left in them."""

    completed: int = 0
    cancelled: int = 0
    dead: int = 0
    agent_events: int = 0
    metrics_minutes: int = 0
    months: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, each.name) for each in fields(self))


class Kind(NamedTuple):
    """Ended tasks of one kind: for how many days they are kept, and what finds the others."""

    name: str
    days: int | None
    statement: str
    state: str = ""


class Pruning:
    """What one queue need not keep at one moment. Any number may delete it at the same time. What
    has an idempotency key stays as long as that counts, which is `window`.
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
        """The kinds of ended tasks; the dead first, with whom the lives after theirs may go."""
        policy = self.retention
        return (
            Kind("dead", policy.dead_days, RESOLVED),
            Kind("completed", policy.completed_days, ENDED, State.COMPLETED),
            Kind("cancelled", policy.cancelled_days, ENDED, State.CANCELLED),
        )

    async def prune(self) -> Pruned:
        """Deletes it all, in transactions of a few thousand rows. What was deleted when the server
        went away stays deleted; the next time goes on.
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
        async with self.archive.within(SEARCH_SEC) as connection:
            # Each month in a transaction of its own: its lock is gone before the next is looked at.
            await connection.set_autocommit(True)
            done.months = await drop_empty(connection, self.now)
        return done

    async def delete_tasks(self, kind: Kind, days: int) -> int:
        """Deletes the ended tasks of a kind, with what belongs to each."""
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
            # What stays is not looked at again by each batch.
            facts["since"] = found[-1][2]

    async def delete_rows(self, statement: str, days: int) -> int:
        """Deletes rows that stand for themselves."""
        number = 0
        while True:
            async with self.archive.within(SEARCH_SEC) as connection, connection.transaction():
                cursor = await connection.execute(statement.encode(), self.facts(days))
                gone = cursor.rowcount
            number += gone
            if gone < TOGETHER:
                return number

    async def count(self) -> Pruned:
        """What would be deleted now; of each task the first life that goes, and no months."""
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
        """What each statement is told."""
        return {
            "queue": self.queue,
            "before": before(self.now, days),
            "unkeyed": self.now - self.window,
            "limit": TOGETHER,
        }


async def delete_lives(
    connection: AsyncConnection[Any], found: Sequence[tuple[Any, int, datetime]]
) -> None:
    """Deletes lives, and what would be left alone without them."""
    if not found:
        return
    facts: dict[str, Any] = {"ids": [row[0] for row in found], "lives": [row[1] for row in found]}
    cursor = await connection.execute(LIVES, facts)
    facts["dags"] = [dag for (dag,) in await cursor.fetchall() if dag is not None]
    for statement in BESIDE:
        await connection.execute(statement.encode(), facts)


async def number_of(connection: AsyncConnection[Any], text: str, facts: dict[str, Any]) -> int:
    """The number that a statement gives."""
    cursor = await connection.execute(text.encode(), facts)
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


def pruning_of(
    archive: Archive, settings: Settings, retention: Retention | None = None, *, now: datetime
) -> Pruning:
    """What a queue need not keep, by its settings or another policy."""
    window = timedelta(seconds=settings.dedupe_window_sec)
    policy = retention or settings.retention
    return Pruning(archive, settings.name, policy, now=now, window=window)


class Pruner:
    """Deletes by the queue's policy. Any number may run: each takes the rows that it can lock."""

    name = "pruner"
    interval_sec = 3600.0

    def __init__(self, archive: Archive, settings: Settings, clock: Clock) -> None:
        self.archive = archive
        self.settings = settings
        self.clock = clock
        self.prepared = False

    async def tick(self) -> Pruned:
        """Deletes what has been kept for long enough."""
        now = self.clock.now()
        if not self.prepared:
            await prepare(self.archive, now)
            self.prepared = True
        return await pruning_of(self.archive, self.settings, now=now).prune()
