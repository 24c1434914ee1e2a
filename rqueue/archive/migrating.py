"""Brings an archive up to date: its tables, and the months that are coming."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.archive.partitions import coming, make_months
from rqueue.archive.schema import Migration, check, migrate

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive


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
        await make_months(connection, coming(now))
    return done
