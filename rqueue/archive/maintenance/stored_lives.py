"""Reads which lives the archive has: their digests, their number, and its quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.health import COUNTS
from rqueue.archive.rows import Unfit, end_in
from rqueue.archive.schema import coming, known_months
from rqueue.core.outbox import OutboxItem
from rqueue.store.replies import UNREADABLE
from rqueue.task.ids import TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection

    from rqueue.archive.connection import Archive

DIGESTS = """
SELECT t.id, t.life, t.digest
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS asked(id, life)
JOIN rqueue.task_lives t ON t.id = asked.id AND t.life = asked.life
"""
# A line starts with the life; the rest may be large.
QUARANTINED = """
SELECT DISTINCT task, substring(line FROM 1 FOR 64)
FROM rqueue.quarantine WHERE queue = %s AND task = ANY(%s)
"""

ROW = "SELECT FROM rqueue.task_lives WHERE queue = %s AND id = %s AND life = %s"

# Completed lives are the remainder, so that only indexes are read.
ENDS = """
SELECT
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s),
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s AND state = 'CANCELLED'),
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s AND state = 'DEAD_LETTERED')
"""

Life = tuple[TaskId, int]


async def digests(archive: Archive, lives: Sequence[Life]) -> Mapping[Life, bytes]:
    """Returns the digests of these lives; those without a row are left out."""
    facts = {"ids": [task.uuid for task, _ in lives], "lives": [life for _, life in lives]}
    async with archive.connection() as connection:
        cursor = await connection.execute(DIGESTS, facts)
        rows = await cursor.fetchall()
    return {(TaskId.parse(id), life): bytes(digest) for id, life, digest in rows}


async def quarantined(archive: Archive, queue: str, tasks: Sequence[TaskId]) -> set[Life | None]:
    """Returns the lives of these tasks whose ends are in quarantine."""
    async with archive.connection() as connection:
        cursor = await connection.execute(QUARANTINED, [queue, [task.ulid for task in tasks]])
        rows = await cursor.fetchall()
    return {life_in(OutboxItem(str(task).encode(), bytes(head))) for task, head in rows}


def state_in(line: OutboxItem) -> State | None:
    """Returns the final state in a line of the outbox; None if it has none, as a late cost."""
    try:
        return State(end_in(line).state)
    except Unfit:
        return None


def life_in(line: OutboxItem) -> Life | None:
    """Returns the life whose end a line of the outbox contains; None if it contains none."""
    try:
        return TaskId.parse(line.task.decode()), end_in(line).life
    except (Unfit, *UNREADABLE):
        return None


async def has_row(connection: AsyncConnection[Any], queue: str, line: OutboxItem) -> bool:
    """Returns whether the life in a line of the outbox has a row."""
    life = life_in(line)
    if life is None:
        return False
    cursor = await connection.execute(ROW, [queue, life[0].uuid, life[1]])
    return cursor.rowcount > 0


async def ends(archive: Archive, queue: str) -> dict[State, int]:
    """Returns the number of archived lives of a queue by final state."""
    async with archive.within(SEARCH_SEC) as connection:
        cursor = await connection.execute(ENDS, {"queue": queue})
        row = await cursor.fetchone()
    total, cancelled, dead = row or (0, 0, 0)
    return {
        State.COMPLETED: total - cancelled - dead,
        State.CANCELLED: cancelled,
        State.DEAD_LETTERED: dead,
    }


async def counts(archive: Archive, queue: str) -> tuple[int, int]:
    """Returns the number of a queue's items in quarantine, and of second ends that differ from the
    archived ones.
    """
    async with archive.connection() as connection:
        cursor = await connection.execute(COUNTS, {"queue": queue})
        row = await cursor.fetchone()
    return row or (0, 0)


async def missing_months(archive: Archive, now: datetime) -> list[str]:
    """Returns the missing partitions of the current and the next month."""
    async with archive.connection() as connection:
        known = await known_months(connection)
    return [month.table for month in coming(now) if month.table not in known]
