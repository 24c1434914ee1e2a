"""Work of embedding workers: completed tasks whose vectors are stored in the archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from rqueue.errors import InvalidTask, LeaseLost
from rqueue.task.attempt.verdict import storable
from rqueue.task.fields import LABEL, LABEL_RULE
from rqueue.task.ids import TaskId

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive


@dataclass(frozen=True, slots=True)
class Embedding:
    """One claim of a completed task that is to be embedded; `token` identifies the claim. `payload`
    and `output` are None if PostgreSQL cannot store them as JSON.
    """

    id: int
    task: TaskId
    life: int
    token: str
    attempts: int
    claimed_until: datetime
    type: str
    agent: str | None = None
    title: str | None = None
    payload: Any = None
    output: Any = None
    tags: tuple[str, ...] = ()


MAX_ATTEMPTS = 5
LEASE_SEC = 300.0
RETRY_SEC = 30.0
MOST = 1_000
MOST_SEC = 86_400
MAX_ERROR = 2_000
MOST_NUMBERS = 16_000
# Run before each claim: a row fails if its last allowed claim has expired.
GIVE_UP = """
UPDATE rqueue.embedding_jobs SET status = 'failed', finished_at = now(),
  error = coalesce(error, 'each claim expired before the worker finished')
WHERE id IN (
  SELECT id FROM rqueue.embedding_jobs
  WHERE queue = %(queue)s AND status IN ('pending', 'claimed') AND attempts >= %(most)s
    AND claimed_until < now()
  ORDER BY id LIMIT %(n)s FOR UPDATE SKIP LOCKED)
"""
CLAIM = """
WITH due AS (
  SELECT id FROM rqueue.embedding_jobs
  WHERE queue = %(queue)s AND status IN ('pending', 'claimed') AND attempts < %(most)s
    AND (claimed_until IS NULL OR claimed_until < now())
  ORDER BY id LIMIT %(n)s FOR UPDATE SKIP LOCKED),
mine AS (
  UPDATE rqueue.embedding_jobs j SET status = 'claimed', attempts = j.attempts + 1,
    claimed_by = %(worker)s, token = %(token)s,
    claimed_until = now() + %(lease)s * interval '1 second'
  FROM due WHERE j.id = due.id
  RETURNING j.id, j.task_id, j.life, j.token, j.attempts, j.claimed_until)
SELECT mine.*, t.type, coalesce(t.agent_name, t.worker), t.spec ->> 'title', t.spec -> 'p',
  t.output, t.tags
FROM mine JOIN rqueue.task_lives t ON t.id = mine.task_id AND t.life = mine.life
ORDER BY mine.id
"""
DONE = """
UPDATE rqueue.embedding_jobs SET status = 'done', embedding = %(vector)s, finished_at = now(),
  error = NULL, claimed_until = NULL
WHERE id = %(id)s AND token = %(token)s AND status = 'claimed'
"""
FAIL = """
UPDATE rqueue.embedding_jobs SET error = %(error)s,
  status = CASE WHEN attempts >= %(most)s THEN 'failed' ELSE 'pending' END,
  finished_at = CASE WHEN attempts >= %(most)s THEN now() END,
  claimed_until = CASE WHEN attempts < %(most)s THEN now() + %(retry)s * interval '1 second' END
WHERE id = %(id)s AND token = %(token)s AND status = 'claimed'
"""
STANDS = """
SELECT status FROM rqueue.embedding_jobs WHERE id = %(id)s AND token = %(token)s
"""
COUNTS = """
SELECT status, count(*) FROM rqueue.embedding_jobs WHERE queue = %s GROUP BY status
"""


class Embeddings:
    """The completed tasks of one queue to embed. Any number of workers may claim them."""

    def __init__(self, archive: Archive, queue: str, *, max_attempts: int = MAX_ATTEMPTS) -> None:
        self.archive = archive
        self.queue = queue
        self.max_attempts = max_attempts

    async def claim(
        self, *, worker: str, n: int = 10, lease_sec: float = LEASE_SEC
    ) -> list[Embedding]:
        """Claims the next tasks that no other worker has claimed, oldest first. A claim expires
        after `lease_sec`; another worker can then claim the task.
        """
        if LABEL.fullmatch(worker) is None:
            raise InvalidTask("worker", LABEL_RULE)
        if not 1 <= n <= MOST:
            raise InvalidTask("n", f"is a number from 1 to {MOST}")
        if not 0 < lease_sec <= MOST_SEC:
            raise InvalidTask("lease_sec", f"is above 0, and at most {MOST_SEC} seconds")
        facts = {
            "queue": self.queue,
            "worker": worker,
            "n": n,
            "most": self.max_attempts,
            "token": token_hex(16),
            "lease": lease_sec,
        }
        async with self.archive.connection() as connection, connection.transaction():
            await connection.execute(GIVE_UP, facts)
            cursor = await connection.execute(CLAIM, facts)
            return [embedding_in(row) for row in await cursor.fetchall()]

    async def done(self, claim: Embedding, vector: Sequence[float]) -> None:
        """Stores the vector of a claim. Raises LeaseLost if another worker has claimed the task
        since. A second call has no effect.
        """
        numbers = numbers_of(vector)
        facts = {"id": claim.id, "token": claim.token, "vector": numbers}
        await self.settle(claim, DONE, facts, stands=("done",))

    async def fail(self, claim: Embedding, error: str, *, retry_sec: float = RETRY_SEC) -> None:
        """Releases a claim after an error. The task can be claimed again after `retry_sec`;
        after its last attempt it is `failed`. Raises LeaseLost if another worker has claimed it
        since.
        """
        if not 0 <= retry_sec <= MOST_SEC:
            raise InvalidTask("retry_sec", f"is from 0 to {MOST_SEC} seconds")
        facts = {
            "id": claim.id,
            "token": claim.token,
            "error": storable(error)[:MAX_ERROR],
            "most": self.max_attempts,
            "retry": retry_sec,
        }
        await self.settle(claim, FAIL, facts, stands=("pending", "failed"))

    async def settle(
        self, claim: Embedding, statement: str, facts: dict[str, Any], *, stands: Sequence[str]
    ) -> None:
        """Ends a claim. If that was done by an earlier call whose reply was lost, nothing changes:
        the row has this token and one of the states `stands`.
        """
        async with self.archive.connection() as connection, connection.transaction():
            cursor = await connection.execute(statement.encode(), facts)
            if cursor.rowcount:
                return
            cursor = await connection.execute(STANDS, facts)
            row = await cursor.fetchone()
        if row is None or row[0] not in stands:
            raise LeaseLost(claim.task, token=claim.token)

    async def counts(self) -> dict[str, int]:
        """Returns the number of tasks to embed by status: pending, claimed, done, failed."""
        async with self.archive.connection() as connection:
            cursor = await connection.execute(COUNTS, [self.queue])
            return {status: int(number) for status, number in await cursor.fetchall()}


def embedding_in(row: Sequence[Any]) -> Embedding:
    """Returns a row as an Embedding."""
    id, task, life, token, attempts, until, type, agent, title, payload, output, tags = row
    named = TaskId.parse(task)
    return Embedding(
        id=id, task=named, life=life, token=token, attempts=attempts, claimed_until=until,
        type=type, agent=agent, title=title, payload=payload, output=output,
        tags=tuple(tags or ()),
    )  # fmt: skip


def numbers_of(vector: Sequence[float]) -> list[float]:
    """Returns the numbers of a vector. Raises InvalidTask if it is empty, too long or has a number
    that is not finite.
    """
    numbers = [float(number) for number in vector]
    if not 1 <= len(numbers) <= MOST_NUMBERS or not all(map(isfinite, numbers)):
        raise InvalidTask("vector", f"has 1 to {MOST_NUMBERS} finite numbers")
    return numbers
