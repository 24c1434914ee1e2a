"""How an archive is doing, for a check-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.archive.schema import applied, migrations
from rqueue.errors import RQueueError
from rqueue.policy.archiving import ArchiveFacts

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive

COUNTS = """
SELECT (SELECT count(*) FROM rqueue.quarantine WHERE queue = %(queue)s),
  (SELECT count(*) FROM rqueue.conflicts WHERE queue = %(queue)s)
"""


async def read_health(archive: Archive, queue: str) -> ArchiveFacts:
    """What PostgreSQL tells of itself and of a queue's rows; raises nothing."""
    try:
        async with archive.connection() as connection:
            major, minor = divmod(connection.info.server_version, 10_000)
            version = f"PostgreSQL {major}.{minor}"
            missing = {step.version for step in migrations()} - await applied(connection)
            if missing:
                return ArchiveFacts(queue, version, missing=len(missing))
            cursor = await connection.execute(COUNTS, {"queue": queue})
            row = await cursor.fetchone()
    except RQueueError as error:
        return ArchiveFacts(queue, fault=str(error))
    quarantined, conflicts = row or (0, 0)
    return ArchiveFacts(queue, version, 0, quarantined, conflicts)
