"""Health checks of an archive: turns facts into findings with advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.archive.schema import applied, migrations
from rqueue.errors import RQueueError
from rqueue.finding import Finding, Level

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive


# Ended tasks wait a second or two for the archive. After this time no archiver seems to run.
LATE_MS = 60_000
MIGRATE = "run `rqueue archive migrate`"


@dataclass(frozen=True, slots=True)
class OutboxFacts:
    """The backlog of the outbox: the number of waiting tasks, the age of the oldest, and the number
    from which on new tasks are refused (0: never).
    """

    queue: str
    waiting: int = 0
    oldest_ms: int | None = None
    most: int = 0


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """Facts about an archive's PostgreSQL; `fault` is the error if it could not be read."""

    queue: str
    version: str = ""
    missing: int = 0
    quarantined: int = 0
    conflicts: int = 0
    fault: str | None = None


def judge_configuration(queue: str, *, configured: bool, joined: bool) -> list[Finding]:
    """Checks that the archive of the queue is configured in this process."""
    if configured or not joined:
        return []
    found = "not configured here, but the queue has one: ended tasks wait for it"
    advice = (
        "set RQUEUE_POSTGRES_URL, or `archive: postgres` in the rqueue.yaml of every process;"
        " to detach the archive, run `rqueue archive leave`"
    )
    return [Finding(Level.FAIL, f"queue {queue}: archive", found, advice)]


def judge_outbox(facts: OutboxFacts) -> Finding:
    """Checks the backlog of the archive."""
    what = f"queue {facts.queue}: outbox"
    advice = "start `rqueue archiver`, or a scheduler with postgres_url set"
    if facts.oldest_ms is None:
        return Finding(Level.OK, what, "no task waits for the archive")
    waiting = counted(facts.waiting, "ended task waits", "ended tasks wait")
    found = f"{waiting} for the archive, the oldest for {facts.oldest_ms / 1000:.1f} s"
    if facts.most and facts.waiting >= facts.most:
        return Finding(Level.FAIL, what, f"{found}; new tasks are refused (max_outbox)", advice)
    if facts.oldest_ms > LATE_MS:
        return Finding(Level.WARN, what, found, advice)
    return Finding(Level.OK, what, found)


def judge_archive(facts: ArchiveFacts) -> list[Finding]:
    """Checks that PostgreSQL is available and has the tables of this release, and that there are no
    quarantined items and no conflicts.
    """
    what = f"queue {facts.queue}: archive"
    if facts.fault is not None:
        advice = "check that PostgreSQL runs, and postgres_url; ended tasks wait in the outbox"
        return [Finding(Level.FAIL, what, facts.fault, advice)]
    if facts.missing:
        missing = counted(facts.missing, "migration is missing", "migrations are missing")
        found = f"{facts.version}, {missing}"
        return [Finding(Level.FAIL, what, found, MIGRATE)]
    findings = [Finding(Level.OK, what, f"{facts.version}, tables are up to date")]
    if facts.quarantined:
        items = counted(facts.quarantined, "item", "items")
        found = f"{items} could not be stored as rows"
        advice = "SELECT task, reason, at FROM rqueue.quarantine"
        findings.append(Finding(Level.WARN, f"queue {facts.queue}: quarantine", found, advice))
    if facts.conflicts:
        ends = counted(facts.conflicts, "life has", "lives have")
        found = f"{ends} a second, different end; the first end is kept"
        advice = "SELECT id, life, state, at FROM rqueue.conflicts; check for a failover"
        findings.append(Finding(Level.WARN, f"queue {facts.queue}: conflicts", found, advice))
    return findings


def counted(number: int, one: str, many: str) -> str:
    """Returns a number with the singular or the plural of a phrase."""
    return f"{number} {one if number == 1 else many}"


COUNTS = """
SELECT (SELECT count(*) FROM rqueue.quarantine WHERE queue = %(queue)s),
  (SELECT count(*) FROM rqueue.conflicts WHERE queue = %(queue)s)
"""


async def read_health(archive: Archive, queue: str) -> ArchiveFacts:
    """Reads the facts about PostgreSQL and a queue's rows. Never raises an RQueueError."""
    try:
        async with archive.connection() as connection:
            major, minor = divmod(connection.info.server_version, 10_000)
            version = f"PostgreSQL {major}.{minor}"
            missing = {step.version for step in migrations()} - await applied(connection)
            if missing:
                return ArchiveFacts(queue, version, missing=len(missing))
            quarantined, conflicts = await read_counts(connection, queue)
    except RQueueError as error:
        return ArchiveFacts(queue, fault=str(error))
    return ArchiveFacts(queue, version, 0, quarantined, conflicts)


async def read_counts(connection: AsyncConnection[Any], queue: str) -> tuple[int, int]:
    """Returns the number of a queue's items in quarantine, and of second ends that differ from the
    archived ones.
    """
    cursor = await connection.execute(COUNTS, {"queue": queue})
    row = await cursor.fetchone()
    return row or (0, 0)
