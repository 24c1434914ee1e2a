"""What PostgreSQL has of lives that Redis still knows, and of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.health import COUNTS
from rqueue.archive.rows import Unfit, told_in
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
# The head of a line says of which life it is; the rest may be large.
ASIDE = """
SELECT DISTINCT task, substring(line FROM 1 FOR 64)
FROM rqueue.quarantine WHERE queue = %s AND task = ANY(%s)
"""

ROW = "SELECT FROM rqueue.task_lives WHERE queue = %s AND id = %s AND life = %s"

# What completed is all else: so the indexes alone are read, however many rows there are.
ENDS = """
SELECT
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s),
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s AND state = 'CANCELLED'),
  (SELECT count(*) FROM rqueue.task_lives WHERE queue = %(queue)s AND state = 'DEAD_LETTERED')
"""

Life = tuple[TaskId, int]


async def digests(archive: Archive, lives: Sequence[Life]) -> Mapping[Life, bytes]:
    """The digests of those of these lives that have a row."""
    facts = {"ids": [task.uuid for task, _ in lives], "lives": [life for _, life in lives]}
    async with archive.connection() as connection:
        cursor = await connection.execute(DIGESTS, facts)
        rows = await cursor.fetchall()
    return {(TaskId.parse(id), life): bytes(digest) for id, life, digest in rows}


async def set_aside(archive: Archive, queue: str, tasks: Sequence[TaskId]) -> set[Life | None]:
    """The lives of these tasks whose ends are in quarantine."""
    async with archive.connection() as connection:
        cursor = await connection.execute(ASIDE, [queue, [task.ulid for task in tasks]])
        rows = await cursor.fetchall()
    return {life_in(OutboxItem(str(task).encode(), bytes(head))) for task, head in rows}


def state_in(line: OutboxItem) -> State | None:
    """How a line of the outbox says that a life ended; None where it tells of no end."""
    try:
        return State(told_in(line).state)
    except Unfit:
        return None


def life_in(line: OutboxItem) -> Life | None:
    """The life whose end a line of the outbox tells of; None where it tells of none."""
    try:
        return TaskId.parse(line.task.decode()), told_in(line).life
    except (Unfit, *UNREADABLE):
        return None


async def has_row(connection: AsyncConnection[Any], queue: str, line: OutboxItem) -> bool:
    """Whether the life that a line of the outbox tells of has its row."""
    life = life_in(line)
    if life is None:
        return False
    cursor = await connection.execute(ROW, [queue, life[0].uuid, life[1]])
    return cursor.rowcount > 0


async def ends(archive: Archive, queue: str) -> dict[State, int]:
    """How many lives of a queue are there, by how they ended."""
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
    """How many of a queue are in quarantine, and how many ended a second time and otherwise."""
    async with archive.connection() as connection:
        cursor = await connection.execute(COUNTS, {"queue": queue})
        row = await cursor.fetchone()
    return row or (0, 0)


async def missing_months(archive: Archive, now: datetime) -> list[str]:
    """The partitions that should be there and are not: of this month and the next."""
    async with archive.connection() as connection:
        known = await known_months(connection)
    return [month.table for month in coming(now) if month.table not in known]
