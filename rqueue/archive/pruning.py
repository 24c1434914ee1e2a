"""Deletes what a queue's policy says need not be kept any longer, a few thousand rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive import expired
from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.partitions import drop_empty
from rqueue.model.retention import Retention, before
from rqueue.model.state import State

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive
    from rqueue.settings import Settings

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
            Kind("dead", policy.dead_days, expired.RESOLVED),
            Kind("completed", policy.completed_days, expired.ENDED, State.COMPLETED),
            Kind("cancelled", policy.cancelled_days, expired.ENDED, State.CANCELLED),
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
            ("agent_events", self.retention.agent_event_days, expired.EVENTS),
            ("metrics_minutes", self.retention.metrics_minute_days, expired.MINUTES),
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
                ("agent_events", self.retention.agent_event_days, expired.COUNT_EVENTS),
                ("metrics_minutes", self.retention.metrics_minute_days, expired.COUNT_MINUTES),
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
    cursor = await connection.execute(expired.LIVES, facts)
    facts["dags"] = [dag for (dag,) in await cursor.fetchall() if dag is not None]
    for statement in expired.BESIDE:
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
