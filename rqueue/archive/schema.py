"""The tables of the archive, brought up to date by numbered steps, each done once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

SCHEMA = "rqueue"
NAME = re.compile(r"(\d{4})_([a-z_]+)\.sql")
# Whoever migrates waits for this lock: two processes that begin at once do each step once.
LOCK = 7_303_014_231_961_113
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
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
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
