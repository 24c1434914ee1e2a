"""dead_letter_reviews: what was decided about dead tasks, written once and read by time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.errors import InvalidTask
from rqueue.model.ids import TaskId
from rqueue.model.review import Review

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive

PAGE = 1_000
MOST_LIVES = 2**31 - 1

WRITE = """
INSERT INTO rqueue.dead_letter_reviews (
  queue, entry, task_id, life, at, reviewer, resolution, cause, note, not_before, diff, type,
  reason, error, fingerprint)
VALUES (
  %(queue)s, %(entry)s, %(task)s, %(life)s, %(at)s, %(by)s, %(resolution)s, %(cause)s, %(note)s,
  %(not_before)s, %(diff)s, %(type)s, %(reason)s, %(error)s, %(fingerprint)s)
ON CONFLICT DO NOTHING
"""

READ = """
SELECT entry, task_id, life, at, resolution, reviewer, cause, note, not_before, diff, type, reason,
  error, fingerprint
FROM rqueue.dead_letter_reviews
WHERE queue = %(queue)s AND at >= coalesce(%(since)s, '-infinity'::timestamptz)
  AND at < coalesce(%(until)s, 'infinity'::timestamptz)
  AND (%(only)s::uuid IS NULL OR task_id = %(only)s)
  AND (at, entry, task_id) > (coalesce(%(at)s, '-infinity'::timestamptz), %(entry)s,
    %(task)s::uuid)
ORDER BY at, entry, task_id LIMIT %(limit)s
"""
TEXTS = ("by", "cause", "note", "type", "reason", "error", "fingerprint")


class Asked(NamedTuple):
    """Which reviews are meant: of a queue, from one time until before another, of all tasks or of
    one.
    """

    queue: str
    since: datetime | None = None
    until: datetime | None = None
    only: TaskId | None = None


def is_fit(review: Review) -> bool:
    """Whether a review can be a row: the stream may hold anyone's bytes."""
    try:
        TaskId.parse(str(review.task))
    except InvalidTask:
        return False
    return review.life <= MOST_LIVES


async def write_reviews(archive: Archive, queue: str, reviews: Sequence[Review]) -> None:
    """Commits reviews; when it returns they are kept for good. What is there stays as it is."""
    if not reviews:
        return
    rows = [row_of(queue, review) for review in reviews]
    async with (
        archive.within(archive.work_sec) as connection,
        connection.transaction(),
        connection.cursor() as cursor,
    ):
        await cursor.executemany(WRITE, rows)


def row_of(queue: str, review: Review) -> dict[str, Any]:
    """A review as its row; texts that are empty are not there."""
    texts = {name: storable(getattr(review, name)) for name in TEXTS}
    return {
        **texts,
        "queue": queue,
        "entry": review.entry,
        "task": review.task.uuid,
        "life": review.life,
        "at": review.at,
        "resolution": storable(review.resolution) or "",
        "not_before": review.not_before,
        "diff": json.dumps(review.diff) if review.diff else None,
    }


def storable(text: str) -> str | None:
    """A text that PostgreSQL holds; nothing for an empty one."""
    return text.replace("\0", "\ufffd") or None


async def read_reviews(archive: Archive, asked: Asked) -> AsyncIterator[Review]:
    """The reviews that are asked for, oldest first."""
    facts: dict[str, Any] = {**asked._asdict(), "limit": PAGE}
    facts["only"] = None if asked.only is None else asked.only.uuid
    facts |= {"at": None, "entry": "", "task": "00000000-0000-0000-0000-000000000000"}
    while True:
        async with archive.within(SEARCH_SEC) as connection:
            cursor = await connection.execute(READ, facts)
            rows = await cursor.fetchall()
        for row in rows:
            yield review_in(row)
        if len(rows) < PAGE:
            return
        entry, task, _, at, *_ = rows[-1]
        facts |= {"at": at, "entry": entry, "task": task}


def review_in(row: Sequence[Any]) -> Review:
    """A row as it was written."""
    entry, task, life, at, resolution, by, cause, note, not_before, diff, *rest = row
    names = ("type", "reason", "error", "fingerprint")
    return Review(
        entry=entry,
        task=TaskId.parse(task),
        life=life,
        at=at,
        resolution=resolution,
        by=by or "",
        cause=cause or "",
        note=note or "",
        not_before=not_before,
        diff=tuple(json.loads(diff)) if diff else (),
        **{name: text or "" for name, text in zip(names, rest, strict=True)},
    )
