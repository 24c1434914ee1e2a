"""Brings an archive up to date: its tables, the months that are coming, and those whose rows had to
stay with the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.archive.partitions import coming, make_months, months_of_others
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
        waiting = await months_of_others(connection, now)
        await make_months(connection, [*waiting, *coming(now)])
    return done
