"""Health checks of an archive: turns facts into findings with advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.archive.schema import applied, migrations
from rqueue.errors import RQueueError
from rqueue.finding import Finding, Level

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive


# What ended waits a second or two for the archive; after this, nobody seems to come.
LATE_MS = 60_000
MIGRATE = "run `rqueue archive migrate`"


@dataclass(frozen=True, slots=True)
class OutboxFacts:
    """What has ended and waits: how many tasks, since when, and how many may before new work is
    refused, 0 for any number.
    """

    queue: str
    waiting: int = 0
    oldest_ms: int | None = None
    most: int = 0


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What is known of an archive's PostgreSQL; `fault` says why it could not be asked."""

    queue: str
    version: str = ""
    missing: int = 0
    quarantined: int = 0
    conflicts: int = 0
    fault: str | None = None


def judge_saying(queue: str, *, says: bool, joined: bool) -> list[Finding]:
    """Whether the archive of the queue is configured in this process."""
    if says or not joined:
        return []
    found = "the settings here say none, and the queue has one: what ends is kept for it"
    advice = (
        "set RQUEUE_POSTGRES_URL, or `archive: postgres` in the rqueue.yaml of all; where it shall"
        " have none, run `rqueue archive leave`"
    )
    return [Finding(Level.FAIL, f"queue {queue}: archive", found, advice)]


def judge_outbox(facts: OutboxFacts) -> Finding:
    """The backlog of the archive."""
    what = f"queue {facts.queue}: outbox"
    advice = "start `rqueue archiver`, or a scheduler that knows postgres_url"
    if facts.oldest_ms is None:
        return Finding(Level.OK, what, "nothing waits for the archive")
    found = f"{facts.waiting} wait for the archive, the first for {facts.oldest_ms / 1000:.1f} s"
    if facts.most and facts.waiting >= facts.most:
        return Finding(Level.FAIL, what, f"{found}: new work is refused (max_outbox)", advice)
    if facts.oldest_ms > LATE_MS:
        return Finding(Level.WARN, what, found, advice)
    return Finding(Level.OK, what, found)


def judge_archive(facts: ArchiveFacts) -> list[Finding]:
    """Whether PostgreSQL is available, has the tables of this release, and has a quarantine."""
    what = f"queue {facts.queue}: archive"
    if facts.fault is not None:
        advice = "see that PostgreSQL runs, and postgres_url; what has ended waits in the outbox"
        return [Finding(Level.FAIL, what, facts.fault, advice)]
    if facts.missing:
        found = f"{facts.version}, {facts.missing} steps of its tables are missing"
        return [Finding(Level.FAIL, what, found, MIGRATE)]
    findings = [Finding(Level.OK, what, f"{facts.version}, its tables are up to date")]
    if facts.quarantined:
        found = f"{facts.quarantined} could be no row"
        advice = "SELECT task, reason, at FROM rqueue.quarantine"
        findings.append(Finding(Level.WARN, f"queue {facts.queue}: quarantine", found, advice))
    if facts.conflicts:
        found = f"{facts.conflicts} ended a second time, and otherwise: the first end stands"
        advice = "SELECT id, life, state, at FROM rqueue.conflicts; was there a failover?"
        findings.append(Finding(Level.WARN, f"queue {facts.queue}: conflicts", found, advice))
    return findings


COUNTS = """
SELECT (SELECT count(*) FROM rqueue.quarantine WHERE queue = %(queue)s),
  (SELECT count(*) FROM rqueue.conflicts WHERE queue = %(queue)s)
"""


async def read_health(archive: Archive, queue: str) -> ArchiveFacts:
    """Facts about PostgreSQL and a queue's rows; never raises."""
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
