"""Writes rows into the archive: all of a batch in one transaction, each life at most once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import psycopg

from rqueue.archive import statements
from rqueue.archive.batch import Refused, Written, by_end, newest
from rqueue.archive.copying import MAX_NAME
from rqueue.archive.faults import NO_RIGHT, speaks_of_a_row
from rqueue.archive.migrating import prepare
from rqueue.archive.partitions import known_months, make_months, month_of
from rqueue.archive.record import whole_of
from rqueue.archive.verifying import has_row
from rqueue.model.ulid import number_of

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.batch import Batch, Ended
    from rqueue.archive.connection import Archive
    from rqueue.clock import Clock
    from rqueue.settings import Settings

log = logging.getLogger("rqueue.archive")

# Ids that have so many characters in common were made within half a minute.
SPAN, LENGTH = 7, 26

# A DAG of which nothing can be kept but that there was one.
NOTHING_KNOWN = {
    "title": None, "status": "unknown", "created_by": None, "created_at": None,
    "finished_at": None, "tasks": None, "dead": None, "cancelled": None, "budget": None,
    "spent": 0, "facts": "{}",
}  # fmt: skip


class Writer:
    """Writes what one queue has ended. Any number may write the same rows at the same time."""

    def __init__(
        self, archive: Archive, queue: str, clock: Clock, extras: Sequence[str] = ()
    ) -> None:
        self.archive = archive
        self.queue = queue
        self.clock = clock
        self.extras = extras
        self.months: set[str] | None = None

    async def prepare(self) -> None:
        """Sees that the tables are there: those of our own server are made, for any other a
        ConfigError says what to do.
        """
        await prepare(self.archive, self.clock.now())

    async def write(self, batch: Batch) -> Written:
        """Commits a batch; when it returns, all of it is kept for good. A row that PostgreSQL
        refuses goes without its JSON, else into quarantine: it holds back no other. Raises
        StoreUnavailable, and then none of it may be there, or all.
        """
        written = Written()
        async with self.archive.within(self.archive.work_sec) as connection:
            await connection.set_autocommit(True)
            await self.make_room(connection, batch.ended)
            for ended in by_end(batch.ended):
                await self.insert(connection, ended, written)
            await self.keep_dags(connection, batch.dags)
            async with connection.transaction():
                for each in batch.refused:
                    await self.quarantine(connection, each, written)
                for cost in batch.late:
                    cursor = await connection.execute(statements.LATE, [*cost, self.queue])
                    written.rows += cursor.rowcount
                    written.repeated += 1 - cursor.rowcount
        return written

    async def insert(
        self, connection: AsyncConnection[Any], ended: Sequence[Ended], written: Written
    ) -> None:
        """Inserts rows together, or where one of them is refused, in ever smaller parts."""
        if not ended:
            return
        try:
            async with connection.transaction():
                written.add(await self.insert_all(connection, ended))
        except psycopg.Error as error:
            if not speaks_of_a_row(error):
                raise
            await self.divide(connection, ended, written, error)

    async def divide(
        self,
        connection: AsyncConnection[Any],
        ended: Sequence[Ended],
        written: Written,
        error: psycopg.Error,
    ) -> None:
        """What is done where one of these rows is refused: it is looked for by halves."""
        half = len(ended) // 2
        if half:
            await self.insert(connection, ended[:half], written)
            await self.insert(connection, ended[half:], written)
            return
        (one,) = ended
        if one.row.has_json:
            bare = one._replace(row=one.row.without_json())
            await self.insert(connection, [bare], written)
            return
        reason = f"PostgreSQL {type(error).__name__} ({error.sqlstate})"
        refused = Refused(one.entry, one.line, one.kept.apart(), reason)
        async with connection.transaction():
            await self.quarantine(connection, refused, written)

    async def insert_all(self, connection: AsyncConnection[Any], ended: Sequence[Ended]) -> Written:
        """Copies rows aside and takes from there what is new."""
        lives = newest(ended)
        failures = "".join(line for row in lives for line in row.failures)
        async with connection.cursor() as cursor:
            await cursor.execute(statements.STAGING)
            async with cursor.copy(statements.COPY_LIVES) as copy:
                await copy.write(b"".join([row.line() for row in lives]))
            await cursor.execute(statements.LIVES, [self.queue])
            written = Written(rows=cursor.rowcount, repeated=len(ended) - cursor.rowcount)
            if cursor.rowcount < len(lives):
                await cursor.execute(statements.CONFLICTS, [self.queue])
                written.conflicts = cursor.rowcount
            if failures:
                async with cursor.copy(statements.COPY_FAILURES) as copy:
                    await copy.write(failures.encode(errors="replace"))
                await cursor.execute(statements.FAILURES, [self.queue])
            for statement in self.extras:
                await cursor.execute(statement, [self.queue])
        return written

    async def keep_dags(
        self, connection: AsyncConnection[Any], dags: Sequence[Mapping[str, object]]
    ) -> None:
        """Writes the rows of DAGs; of one that PostgreSQL refuses, what can stand in any row."""
        facts = [{**dag, "queue": self.queue} for dag in dags]
        try:
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany(statements.DAGS, facts)
        except psycopg.Error as error:
            if not speaks_of_a_row(error):
                raise
            if len(dags) > 1:
                for dag in dags:
                    await self.keep_dags(connection, [dag])
                return
            await connection.execute(statements.DAGS, {**facts[0], **NOTHING_KNOWN})
            log.warning("a DAG's facts can be no row", extra={"dag": str(facts[0]["id"])})

    async def quarantine(
        self, connection: AsyncConnection[Any], refused: Refused, written: Written
    ) -> None:
        """Keeps what can be no row, unless it is one: of an end that another archiver has written
        while this one was slow, Redis may have forgotten all.
        """
        if not refused.kept.flat and await has_row(connection, self.queue, refused.line):
            written.repeated += 1
            return
        task, name = name_of(refused.line.task), refused.line.task
        line, kept = refused.line.value, whole_of(refused.kept, name)
        facts = [self.queue, refused.entry, task, line, kept, refused.reason]
        cursor = await connection.execute(statements.QUARANTINE, facts)
        written.quarantined += cursor.rowcount
        if cursor.rowcount:
            log.warning("quarantined: %s", refused.reason, extra={"task": task})

    async def make_room(self, connection: AsyncConnection[Any], ended: Sequence[Ended]) -> None:
        """Makes the partitions that these rows need. A role that may not leaves their rows to the
        one for all others, out of which the next migration takes them.
        """
        if self.months is None:
            self.months = await known_months(connection)
        now = self.clock.now()
        ends = {end for span in {each.row.ulid[:SPAN] for each in ended} for end in ends_of(span)}
        wanted = {month_of(number_of(end) >> 80, now) for end in ends}
        missing = [month for month in wanted if month and month.table not in self.months]
        if not missing:
            return
        try:
            await make_months(connection, missing)
        except psycopg.Error as error:
            if error.sqlstate != NO_RIGHT:
                raise
        self.months |= {month.table for month in missing}


def name_of(task: bytes) -> str:
    """What a task is called that is no id, perhaps: of a long one the beginning, and what tells it
    from all others.
    """
    name = task.decode(errors="replace").replace("\0", "\ufffd")
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…{sha256(task).hexdigest()[:16]}"


def ends_of(span: str) -> tuple[str, str]:
    """The first and the last id that begin so: a month that one of them needs is theirs, too."""
    return span.ljust(LENGTH, "0"), span.ljust(LENGTH, "Z")


def extras_of(settings: Settings) -> list[str]:
    """The statements for what a queue wants to have written with each row."""
    wanted = {
        statements.AGENT_EVENTS: settings.agent_events,
        statements.EMBEDDING_JOBS: settings.embedding_jobs,
    }
    return [statement for statement, is_wanted in wanted.items() if is_wanted]
