"""The months of the archive: each is a range of ids, since ids begin with the time they were made.

Ids of clocks that are far off have no month: they go to the partition for all others.
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
# How far before its time the range of a month is made.
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
        """The name of its partition."""
        return f"task_lives_{self.year:04}_{self.month:02}"

    def next(self) -> Month:
        """The month after it."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    def first_id(self) -> UUID:
        """The lowest id that can be made in it."""
        return first_id_at(datetime(self.year, self.month, 1, tzinfo=UTC))


def first_id_at(moment: datetime) -> UUID:
    """The lowest id that can be made at a moment."""
    return UUID(int=round(moment.timestamp() * 1000) << 80)


def month_of(made_ms: int, now: datetime) -> Month | None:
    """The month of an id that was made at a time; None for one that no clock of today shows."""
    latest = round((now + AHEAD).timestamp() * 1000)
    if made_ms >= latest:
        return None
    made = datetime.fromtimestamp(made_ms / 1000, UTC)
    return Month(made.year, made.month) if made.year >= FIRST_YEAR else None


def coming(now: datetime) -> list[Month]:
    """This month and the next."""
    this = Month(now.year, now.month)
    return [this, this.next()]


async def known_months(connection: AsyncConnection[Any]) -> set[str]:
    """The partitions that are there, by name."""
    cursor = await connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'rqueue.task_lives'::regclass"
    )
    return {name for (name,) in await cursor.fetchall()}


async def months_of_others(connection: AsyncConnection[Any], now: datetime) -> list[Month]:
    """The months whose rows stand in the partition for all others: those that came when nobody was
    there who may make a month.
    """
    months: list[Month] = []
    low, high = Month(FIRST_YEAR, 1).first_id(), first_id_at(now + AHEAD)
    # From month to month by the index: there may be any number of rows.
    text = sql.SQL("SELECT id FROM {} WHERE id >= %s AND id < %s ORDER BY id LIMIT 1").format(OTHER)
    while row := await (await connection.execute(text, [low, high])).fetchone():
        month = month_of(row[0].int >> 80, now)
        if month is None:
            break
        months.append(month)
        low = month.next().first_id()
    return months


async def make_months(connection: AsyncConnection[Any], months: Iterable[Month]) -> int:
    """Makes the partitions of months that have none; how many. Rows of theirs that had no place
    before come into it. Others may read and write meanwhile, but for a moment at the end.
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
    """One partition, with the rows that waited for it."""
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


def over(now: datetime) -> str:
    """The name that the partitions of all months before the last are below."""
    last = Month(now.year, now.month)
    return Month(last.year - (last.month == 1), (last.month - 2) % 12 + 1).table


async def drop_empty(connection: AsyncConnection[Any], now: datetime) -> int:
    """Drops the months that are over and empty; how many. One that is in use just now is left for
    the next time, and so is all where the role has not the right; one may be gone by the hand of
    another. A row that comes later all the same finds its place among the others.
    """
    dropped = 0
    for name in sorted(await known_months(connection)):
        if not MONTH.fullmatch(name) or name >= over(now):
            continue
        try:
            # One that was made after the rights were given cannot even be looked at.
            if await is_empty(connection, name):
                dropped += await drop_month(connection, name)
        except psycopg.Error as error:
            if error.sqlstate not in (IN_USE, DEADLOCK, NO_RIGHT, NO_TABLE):
                raise
    return dropped


async def is_empty(connection: AsyncConnection[Any], name: str) -> bool:
    """Whether a partition has no row."""
    text = sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier("rqueue", name))
    cursor = await connection.execute(text)
    row = await cursor.fetchone()
    return bool(row and row[0])


async def drop_month(connection: AsyncConnection[Any], name: str) -> bool:
    """Drops a partition that is still empty when nobody else can write to it."""
    async with connection.transaction():
        # All who come after wait for as long as this waits for those before.
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
# Whoever migrates waits for this lock: two processes that begin at once do each step once.
SCHEMA_LOCK = 7_303_014_231_961_113
LEDGER = """
CREATE TABLE IF NOT EXISTS rqueue.migrations (
  version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its number, its name, and its statements."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """All steps, in their order."""
    found = []
    for path in files("rqueue.archive").joinpath("migrations").iterdir():
        match = NAME.fullmatch(path.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], path.read_text("utf-8")))
    return sorted(found, key=lambda step: step.version)


async def migrate(connection: AsyncConnection[Any]) -> list[Migration]:
    """Does the steps that were not done yet, all or none of them; which they were."""
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
    """The numbers of the steps that are done; none where there is no schema."""
    cursor = await connection.execute("SELECT to_regclass('rqueue.migrations') IS NOT NULL")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return set()
    cursor = await connection.execute("SELECT version FROM rqueue.migrations")
    return {version for (version,) in await cursor.fetchall()}


async def check(connection: AsyncConnection[Any]) -> None:
    """Raises ConfigError where the tables are not those of this release."""
    done, known = await applied(connection), {step.version for step in migrations()}
    if known - done:
        rule = f"has no tables of this release ({len(known - done)} steps are missing)"
        raise ConfigError("archive", f"{rule}: run `rqueue archive migrate`")


async def prepare(archive: Archive, now: datetime) -> None:
    """Sees that the tables are there: those of our own server are made, for any other a ConfigError
    says what to do.
    """
    if archive.own:
        await migrate_all(archive, now)
    async with archive.connection() as connection:
        await check(connection)


async def migrate_all(archive: Archive, now: datetime) -> list[Migration]:
    """Does what was not done yet, once, however many ask for it; which steps that were."""
    # What it makes of large tables may take hours; half done it would begin anew each time.
    async with archive.within(None) as connection:
        await connection.set_autocommit(True)
        done = await migrate(connection)
        waiting = await months_of_others(connection, now)
        await make_months(connection, [*waiting, *coming(now)])
    return done
