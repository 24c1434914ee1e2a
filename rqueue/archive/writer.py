"""Writes batches of ended tasks to PostgreSQL."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import psycopg

from rqueue.archive import copying
from rqueue.archive.copying import INT_DIGITS, MAX_NAME, PART_DIGITS
from rqueue.archive.rows import Unfit, life_in, quarantine_data
from rqueue.archive.schema import known_months, make_months, month_of, prepare
from rqueue.archive.wire import NO_RIGHT, is_row_error
from rqueue.store.replies import UNREADABLE, moment, natural
from rqueue.task.fields import LABEL, label
from rqueue.task.ids import number_of

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive
    from rqueue.archive.plain_rows import QuickRow
    from rqueue.archive.rows import Row
    from rqueue.clock import Clock
    from rqueue.core.ended import EndedTask, PlainTask
    from rqueue.core.outbox import OutboxItem
    from rqueue.settings.load import Settings


class Ended(NamedTuple):
    """A row and its source data, which is quarantined if PostgreSQL refuses the row."""

    row: Row | QuickRow
    entry: str
    line: OutboxItem
    kept: EndedTask | PlainTask


class Refused(NamedTuple):
    """An item of the outbox that cannot be stored as a row, and the reason."""

    entry: str
    line: OutboxItem
    kept: EndedTask
    reason: str


@dataclass(slots=True)
class Batch:
    """Items that are written together. `ended_dags` are those of its DAGs that have ended."""

    ended: list[Ended] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    dags: list[Mapping[str, object]] = field(default_factory=list)
    ended_dags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """The result of batches: rows inserted or amended, rows that existed, second ends that differ
    from the first, and items in quarantine.
    """

    rows: int = 0
    repeated: int = 0
    conflicts: int = 0
    quarantined: int = 0

    def add(self, other: Written) -> None:
        """Adds the counts of another batch."""
        self.rows += other.rows
        self.repeated += other.repeated
        self.conflicts += other.conflicts
        self.quarantined += other.quarantined


def by_end(ended: Sequence[Ended]) -> list[Sequence[Ended]]:
    """Returns the rows in groups that are written one after the other. In each group a life has one
    end: in the first group its first end, which is stored, in the others those that differ from it.
    """
    if len({(each.row.ulid, each.row.life) for each in ended}) == len(ended):
        return [ended]
    groups: list[list[Ended]] = []
    known: dict[tuple[str, int], list[str]] = {}
    for each in ended:
        digests = known.setdefault((each.row.ulid, each.row.life), [])
        if each.row.digest not in digests:
            digests.append(each.row.digest)
        place = digests.index(each.row.digest)
        groups += [[]] if place == len(groups) else []
        groups[place].append(each)
    return [*groups]


def newest(ended: Sequence[Ended]) -> list[Row | QuickRow]:
    """Returns one row for each life, because one statement cannot change a row twice. The latest
    line of an end replaces earlier ones, but a discarded life stays discarded.
    """
    found: dict[tuple[str, int], Row | QuickRow] = {}
    for each in ended:
        row = each.row
        known = found.get((row.ulid, row.life))
        if known is None or row.is_discarded or not known.is_discarded:
            found[row.ulid, row.life] = row
    return list(found.values())


log = logging.getLogger("rqueue.archive")
# Ids with a common prefix of SPAN characters were created within half a minute.
SPAN, LENGTH = 7, 26
# The row of a DAG whose facts PostgreSQL refuses.
UNKNOWN_DAG = {
    "title": None, "status": "unknown", "created_by": None, "created_at": None,
    "finished_at": None, "tasks": None, "dead": None, "cancelled": None, "budget": None,
    "spent": 0, "facts": "{}",
}  # fmt: skip


ROW = "SELECT FROM rqueue.task_lives WHERE queue = %s AND id = %s AND life = %s"


class Writer:
    """Writes the ended tasks of one queue. Any number of writers may write the same rows."""

    def __init__(
        self, archive: Archive, queue: str, clock: Clock, extras: Sequence[str] = ()
    ) -> None:
        self.archive = archive
        self.queue = queue
        self.clock = clock
        self.extras = extras
        self.months: set[str] | None = None

    async def prepare(self) -> None:
        """Creates the tables on an embedded server; on any other raises ConfigError if they are
        missing.
        """
        await prepare(self.archive, self.clock.now())

    async def write(self, batch: Batch) -> Written:
        """Commits a batch durably. A row that PostgreSQL refuses is written without its JSON, or
        else quarantined, and does not block the others. Raises StoreUnavailable; then none, a part
        or all of the batch may be committed.
        """
        written = Written()
        async with self.archive.within(self.archive.work_sec) as connection:
            await connection.set_autocommit(True)
            await self.make_partitions(connection, batch.ended)
            for ended in by_end(batch.ended):
                await self.insert(connection, ended, written)
            await self.write_dags(connection, batch.dags)
            async with connection.transaction():
                for each in batch.refused:
                    await self.quarantine(connection, each, written)
                for cost in batch.late:
                    cursor = await connection.execute(copying.LATE, [*cost, self.queue])
                    written.rows += cursor.rowcount
                    written.repeated += 1 - cursor.rowcount
        return written

    async def insert(
        self, connection: AsyncConnection[Any], ended: Sequence[Ended], written: Written
    ) -> None:
        """Inserts rows together; if one is refused, in smaller and smaller parts."""
        if not ended:
            return
        try:
            async with connection.transaction():
                written.add(await self.insert_all(connection, ended))
        except psycopg.Error as error:
            if not is_row_error(error):
                raise
            await self.divide(connection, ended, written, error)

    async def divide(
        self,
        connection: AsyncConnection[Any],
        ended: Sequence[Ended],
        written: Written,
        error: psycopg.Error,
    ) -> None:
        """Finds a refused row by bisection."""
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
        refused = Refused(one.entry, one.line, one.kept.unpacked(), reason)
        async with connection.transaction():
            await self.quarantine(connection, refused, written)

    async def insert_all(self, connection: AsyncConnection[Any], ended: Sequence[Ended]) -> Written:
        """Copies rows to a temporary table and inserts the new ones from there."""
        lives = newest(ended)
        failures = "".join(line for row in lives for line in row.failures)
        async with connection.cursor() as cursor:
            await cursor.execute(copying.STAGING)
            async with cursor.copy(copying.COPY_LIVES) as copy:
                await copy.write(b"".join([row.line() for row in lives]))
            await cursor.execute(copying.LIVES, [self.queue])
            written = Written(rows=cursor.rowcount, repeated=len(ended) - cursor.rowcount)
            if cursor.rowcount < len(lives):
                await cursor.execute(copying.CONFLICTS, [self.queue])
                written.conflicts = cursor.rowcount
            if failures:
                async with cursor.copy(copying.COPY_FAILURES) as copy:
                    await copy.write(failures.encode(errors="replace"))
                await cursor.execute(copying.FAILURES, [self.queue])
            for statement in self.extras:
                await cursor.execute(statement, [self.queue])
        return written

    async def write_dags(
        self, connection: AsyncConnection[Any], dags: Sequence[Mapping[str, object]]
    ) -> None:
        """Writes the rows of DAGs; of a refused one, only the fields that are always valid."""
        facts = [{**dag, "queue": self.queue} for dag in dags]
        try:
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany(copying.DAGS, facts)
        except psycopg.Error as error:
            if not is_row_error(error):
                raise
            if len(dags) > 1:
                for dag in dags:
                    await self.write_dags(connection, [dag])
                return
            await connection.execute(copying.DAGS, {**facts[0], **UNKNOWN_DAG})
            log.warning("facts of a DAG refused", extra={"dag": str(facts[0]["id"])})

    async def quarantine(
        self, connection: AsyncConnection[Any], refused: Refused, written: Written
    ) -> None:
        """Quarantines an item that cannot be stored as a row, unless its row exists: if another
        archiver has written the end in the meantime, the data in Redis may have expired.
        """
        if not refused.kept.flat and await has_row(connection, self.queue, refused.line):
            written.repeated += 1
            return
        task, name = task_name(refused.line.task), refused.line.task
        line, kept = refused.line.value, quarantine_data(refused.kept, name)
        facts = [self.queue, refused.entry, task, line, kept, refused.reason]
        cursor = await connection.execute(copying.QUARANTINE, facts)
        written.quarantined += cursor.rowcount
        if cursor.rowcount:
            log.warning("quarantined: %s", refused.reason, extra={"task": task})

    async def make_partitions(
        self, connection: AsyncConnection[Any], ended: Sequence[Ended]
    ) -> None:
        """Creates the missing partitions for these rows. Without the right to do so, the rows go to
        the default partition, and the next migration moves them.
        """
        if self.months is None:
            self.months = await known_months(connection)
        now = self.clock.now()
        ends = {end for span in {each.row.ulid[:SPAN] for each in ended} for end in id_range(span)}
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


async def has_row(connection: AsyncConnection[Any], queue: str, line: OutboxItem) -> bool:
    """Returns whether the life in a line of the outbox has a row."""
    life = life_in(line)
    if life is None:
        return False
    cursor = await connection.execute(ROW, [queue, life[0].uuid, life[1]])
    return cursor.rowcount > 0


def task_name(task: bytes) -> str:
    """Returns the name of a task whose id may be invalid; a long name is cut and ends with its
    hash.
    """
    name = copying.storable(task.decode(errors="replace"))
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…{sha256(task).hexdigest()[:16]}"


def id_range(span: str) -> tuple[str, str]:
    """Returns the first and the last id with this prefix. All others are in the same months."""
    return span.ljust(LENGTH, "0"), span.ljust(LENGTH, "Z")


def extras_of(settings: Settings) -> list[str]:
    """Returns the optional statements that the queue's settings enable."""
    wanted = {
        copying.AGENT_EVENTS: settings.agent_events,
        copying.EMBEDDING_JOBS: settings.embedding_jobs,
    }
    return [statement for statement, is_wanted in wanted.items() if is_wanted]


COST = b"COST"


class Late(NamedTuple):
    """One late cost of a task's life. Its key is the lease token of the attempt (`token`) and the
    number of the note (`seq`). Invalid labels are None.
    """

    task: UUID
    token: str
    seq: int
    life: int
    epoch: int
    worker: str | None
    model: str | None
    micro_usd: int
    tokens_input: int
    tokens_output: int
    at: datetime


def is_late(line: OutboxItem) -> bool:
    """Returns whether a line of the outbox is a late cost."""
    return line.value.partition(b" ")[2].partition(b" ")[0] == COST


def late_in(line: OutboxItem) -> Late:
    """Parses the late cost in a line. Raises Unfit if it is invalid."""
    life, _, data = line.value.split(b" ", 2) if line.value.count(b" ") > 1 else (b"", b"", b"")
    try:
        found: Any = json.loads(data)
        token = label(found["token"])
        return Late(
            UUID(int=number_of(line.task.decode())),
            token,
            natural(found["seq"]),
            number(life),
            number(token.partition(":")[0]),
            label_in(found["owner"]),
            label_in(found.get("model")),
            number(found["micro_usd"], PART_DIGITS),
            number(found["tokens_in"], PART_DIGITS),
            number(found["tokens_out"], PART_DIGITS),
            moment(natural(found["at"])),
        )
    except (*UNREADABLE, RecursionError):
        raise Unfit("the late cost in the outbox is invalid") from None


def label_in(given: object) -> str | None:
    """Returns the value if it is a valid label, else None."""
    return given if isinstance(given, str) and LABEL.fullmatch(given) else None


def number(given: str | bytes, digits: int = INT_DIGITS) -> int:
    """Parses an integer of at most `digits` digits. Raises ValueError."""
    if len(given) > digits:
        raise ValueError("out of range")
    return natural(given)
