"""The tables of the archive: migrations, and one partition of task_lives per month.

A month is a range of ids, because an id begins with its creation time. Ids of clocks that are far
off belong to no month: their rows go to the default partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from rqueue.archive.wire import NO_RIGHT, NO_TABLE
from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive


TABLE = sql.Identifier("rqueue", "task_lives")
OTHER = sql.Identifier("rqueue", "task_lives_other")
FIRST_YEAR = 2020
# An id whose time is further in the future than this belongs to no month.
AHEAD = timedelta(days=62)
PARTITIONS_LOCK = 7_303_014_231_961_114
MONTH = re.compile(r"task_lives_[0-9]{4}_[0-9]{2}")
IN_USE, DEADLOCK = "55P03", "40P01"


class Month(NamedTuple):
    """One month of one year."""

    year: int
    month: int

    @property
    def table(self) -> str:
        """The name of the partition."""
        return f"task_lives_{self.year:04}_{self.month:02}"

    def next(self) -> Month:
        """Returns the following month."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    def first_id(self) -> UUID:
        """Returns the lowest id that can be created in this month."""
        return first_id_at(datetime(self.year, self.month, 1, tzinfo=UTC))


def first_id_at(moment: datetime) -> UUID:
    """Returns the lowest id that can be created at this time."""
    return UUID(int=round(moment.timestamp() * 1000) << 80)


def month_of(made_ms: int, now: datetime) -> Month | None:
    """Returns the month of an id created at this time; None if the time is before FIRST_YEAR or
    too far in the future.
    """
    latest = round((now + AHEAD).timestamp() * 1000)
    if made_ms >= latest:
        return None
    made = datetime.fromtimestamp(made_ms / 1000, UTC)
    return Month(made.year, made.month) if made.year >= FIRST_YEAR else None


def this_and_next(now: datetime) -> list[Month]:
    """Returns the current and the next month."""
    this = Month(now.year, now.month)
    return [this, this.next()]


async def known_months(connection: AsyncConnection[Any]) -> set[str]:
    """Returns the names of the existing partitions."""
    cursor = await connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'rqueue.task_lives'::regclass"
    )
    return {name for (name,) in await cursor.fetchall()}


async def months_in_default(connection: AsyncConnection[Any], now: datetime) -> list[Month]:
    """Returns the months that have rows in the default partition. Rows get there while no process
    with the right to create a partition writes to the archive.
    """
    months: list[Month] = []
    low, high = Month(FIRST_YEAR, 1).first_id(), first_id_at(now + AHEAD)
    # One index lookup per month, because the number of rows is not limited.
    text = sql.SQL("SELECT id FROM {} WHERE id >= %s AND id < %s ORDER BY id LIMIT 1").format(OTHER)
    while row := await (await connection.execute(text, [low, high])).fetchone():
        month = month_of(row[0].int >> 80, now)
        if month is None:
            break
        months.append(month)
        low = month.next().first_id()
    return months


async def make_months(connection: AsyncConnection[Any], months: Iterable[Month]) -> int:
    """Creates the missing partitions of these months and returns their number. Moves the months'
    rows from the default partition. Other connections can read and write meanwhile, except for a
    moment at the end.
    """
    made = 0
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [PARTITIONS_LOCK])
        known = await known_months(connection)
        for month in sorted(set(months)):
            if month.table not in known:
                await make_month(connection, month)
                made += 1
    return made


async def make_month(connection: AsyncConnection[Any], month: Month) -> None:
    """Creates one partition and moves its rows from the default partition."""
    part = sql.Identifier("rqueue", month.table)
    low, high = sql.Literal(month.first_id()), sql.Literal(month.next().first_id())
    names = {"part": part, "table": TABLE, "other": OTHER, "low": low, "high": high}
    steps = (
        "CREATE TABLE {part} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
        "WITH moved AS (DELETE FROM {other} WHERE id >= {low} AND id < {high} RETURNING *)"
        " INSERT INTO {part} SELECT * FROM moved",
        "ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES FROM ({low}) TO ({high})",
    )
    for step in steps:
        await connection.execute(sql.SQL(step).format(**names))


def last_month(now: datetime) -> str:
    """Returns the name of last month's partition; those of older months sort before it."""
    last = Month(now.year, now.month)
    return Month(last.year - (last.month == 1), (last.month - 2) % 12 + 1).table


async def drop_empty(connection: AsyncConnection[Any], now: datetime) -> int:
    """Drops the empty partitions of past months and returns their number. Skips partitions that are
    in use or were dropped concurrently, and all if the role lacks the right. A later row of a
    dropped month goes to the default partition.
    """
    dropped = 0
    for name in sorted(await known_months(connection)):
        if not MONTH.fullmatch(name) or name >= last_month(now):
            continue
        try:
            # Reading may be refused too: old grants do not cover a partition created after them.
            if await is_empty(connection, name):
                dropped += await drop_month(connection, name)
        except psycopg.Error as error:
            if error.sqlstate not in (IN_USE, DEADLOCK, NO_RIGHT, NO_TABLE):
                raise
    return dropped


async def is_empty(connection: AsyncConnection[Any], name: str) -> bool:
    """Returns whether a partition has no rows."""
    text = sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier("rqueue", name))
    cursor = await connection.execute(text)
    row = await cursor.fetchone()
    return bool(row and row[0])


async def drop_month(connection: AsyncConnection[Any], name: str) -> bool:
    """Locks the table and drops the partition if it is still empty. Returns whether it did."""
    async with connection.transaction():
        # Later statements on the table queue behind this lock request, so it waits only briefly.
        await connection.execute("SET LOCAL lock_timeout = '1s'")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [PARTITIONS_LOCK])
        await connection.execute(
            sql.SQL("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE").format(TABLE)
        )
        if not await is_empty(connection, name):
            return False
        await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier("rqueue", name)))
    return True


SCHEMA = "rqueue"
NAME = re.compile(r"(\d{4})_([a-z_]+)\.sql")
# Held during a migration, so that concurrent processes apply each migration once.
SCHEMA_LOCK = 7_303_014_231_961_113
LEDGER = """
CREATE TABLE IF NOT EXISTS rqueue.migrations (
  version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration: its number, its name, and its statements."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """Returns all migrations of this release in order."""
    found = []
    for path in files("rqueue.archive").joinpath("migrations").iterdir():
        match = NAME.fullmatch(path.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], path.read_text("utf-8")))
    return sorted(found, key=lambda step: step.version)


async def migrate(connection: AsyncConnection[Any]) -> list[Migration]:
    """Applies the missing migrations in one transaction and returns them."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await connection.execute(LEDGER)
        done = await applied(connection)
        todo = [step for step in migrations() if step.version not in done]
        for step in todo:
            await connection.execute(step.sql)
            await connection.execute(
                "INSERT INTO rqueue.migrations (version, name) VALUES (%s, %s)",
                [step.version, step.name],
            )
        return todo


async def applied(connection: AsyncConnection[Any]) -> set[int]:
    """Returns the numbers of the applied migrations; empty if the schema does not exist."""
    cursor = await connection.execute("SELECT to_regclass('rqueue.migrations') IS NOT NULL")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return set()
    cursor = await connection.execute("SELECT version FROM rqueue.migrations")
    return {version for (version,) in await cursor.fetchall()}


async def check(connection: AsyncConnection[Any]) -> None:
    """Raises ConfigError if migrations of this release are missing."""
    done, known = await applied(connection), {step.version for step in migrations()}
    if known - done:
        rule = f"lacks tables of this release (migrations missing: {len(known - done)})"
        raise ConfigError("archive", f"{rule}: run `rqueue archive migrate`")


async def prepare(archive: Archive, now: datetime) -> None:
    """Creates the tables on an embedded server. On any other server raises ConfigError if they are
    missing.
    """
    if archive.own:
        await migrate_all(archive, now)
    async with archive.connection() as connection:
        await check(connection)


async def migrate_all(archive: Archive, now: datetime) -> list[Migration]:
    """Applies the missing migrations and creates the missing partitions. Returns the migrations
    that this call applied; concurrent calls apply each of them once.
    """
    # No timeout: a migration of large tables may take hours, and would start again after each one.
    async with archive.within(None) as connection:
        await connection.set_autocommit(True)
        done = await migrate(connection)
        waiting = await months_in_default(connection, now)
        await make_months(connection, [*waiting, *this_and_next(now)])
    return done
