"""What ended tasks have cost, in sums: by type, agent, worker, model and day."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.reader import task_id
from rqueue.dead.reviews import Review
from rqueue.errors import InvalidTask
from rqueue.store.replies import moment
from rqueue.task.fields import Checked, Instant
from rqueue.task.ids import DagId, TaskId, ulid_of

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader
    from rqueue.archive.words import By


COLUMNS: dict[By, str] = {
    "type": "s.type",
    "agent": "s.agent",
    "worker": "s.worker",
    "model": "s.model",
    # As text: no calendar of a client has to hold what a hash may say.
    "day": "to_char(s.at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}
SPENDING_STATEMENT = (
    "SELECT {columns} sum(s.cost_usd), sum(s.tokens)::bigint, count(DISTINCT s.task_id)"
    " FROM rqueue.spending s WHERE s.queue = %(queue)s"
    " AND (%(since)s::timestamptz IS NULL OR s.at >= %(since)s)"
    " AND (%(until)s::timestamptz IS NULL OR s.at < %(until)s)"
    " AND (%(type)s::text IS NULL OR s.type = %(type)s)"
    " {grouped} ORDER BY {order} LIMIT %(limit)s"
)


class Spent(Checked):
    """One sum, and what it is of: only what was asked for is named, and None is what nobody said,
    such as the model of a cost that was told without. `tasks` is how many have a part in it.
    """

    type: str | None = None
    agent: str | None = None
    worker: str | None = None
    model: str | None = None
    day: str | None = None
    cost_usd: Decimal = Decimal(0)
    tokens: int = 0
    tasks: int = 0


async def spend(
    reader: ArchiveReader,
    by: Sequence[By],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    type: str | None = None,
    limit: int | None = None,
) -> list[Spent]:
    """The sums, by day first the latest, else first the largest; one of all where nothing divides
    it.
    """
    columns = "".join(f"{COLUMNS[one]}, " for one in by)
    places = [str(place) for place in range(1, len(by) + 1)]
    latest = [f"{by.index('day') + 1} DESC"] if "day" in by else []
    order = [*latest, "sum(s.cost_usd) DESC NULLS LAST", *places]
    statement = (
        SPENDING_STATEMENT.replace("{columns}", columns)
        .replace("{grouped}", f"GROUP BY {', '.join(places)}" if by else "")
        .replace("{order}", ", ".join(order))
    )
    given = {
        "queue": reader.queue, "since": since, "until": until, "type": type, "limit": limit,
    }  # fmt: skip
    rows = await reader.search(statement, given)
    return [spent_of(by, row) for row in rows if row[-1]]


def spent_of(by: Sequence[By], row: Sequence[object]) -> Spent:
    """One row as a sum."""
    *names, cost, tokens, tasks = row
    named: dict[str, object] = dict(zip(by, names, strict=True))
    return Spent.parse({**named, "cost_usd": cost or 0, "tokens": tokens or 0, "tasks": tasks})


PAGE = 1_000
MICRO = 1_000_000
EVENTS_STATEMENT = (
    "SELECT e.task_id, e.life, round(extract(epoch FROM e.at) * 1000)::bigint, e.agent, e.type,"
    " e.event, e.dag_id, e.duration_sec, e.cost_micro_usd, e.tokens_input, e.tokens_output,"
    " e.model, e.error"
    " FROM rqueue.agent_events e WHERE e.queue = %(queue)s"
    " AND (%(agent)s::text IS NULL OR e.agent = %(agent)s)"
    " AND (%(task)s::uuid IS NULL OR e.task_id = %(task)s)"
    " AND (%(since)s::timestamptz IS NULL OR e.at >= %(since)s)"
    " AND (%(until)s::timestamptz IS NULL OR e.at < %(until)s){after}"
    " ORDER BY e.at DESC, e.task_id DESC, e.life DESC LIMIT %(limit)s"
)
AFTER = (
    " AND (e.at, e.task_id, e.life) <"
    " ('epoch'::timestamptz + %(ms)s * interval '1 millisecond', %(last)s, %(life)s)"
)


class AgentEvent(Checked):
    """What an agent did with one task: `task.completed`, `task.cancelled`, `task.dead_lettered`."""

    task_id: TaskId
    life: int
    agent: str
    type: str
    event: str
    dag_id: DagId | None = None
    at: Instant
    duration_sec: float | None = None
    cost_usd: Decimal = Decimal(0)
    tokens_input: int = 0
    tokens_output: int = 0
    model: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WantedEvents:
    """All that fit everything given; `until` is no longer within."""

    agent: str | None = None
    task: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    def parameters(self) -> dict[str, object]:
        """What stands for the names of the statement."""
        return {
            "agent": self.agent,
            "task": self.task,
            "since": self.since,
            "until": self.until,
        }


async def events(
    reader: ArchiveReader, wanted: WantedEvents, *, limit: int | None = None
) -> AsyncIterator[AgentEvent]:
    """The events that fit, the last one first, read as they are walked."""
    given = {"queue": reader.queue, **wanted.parameters()}
    statement, left = EVENTS_STATEMENT.replace("{after}", ""), limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = await reader.search(statement, {**given, "limit": size})
        for row in rows:
            yield event_of(row)
        if len(rows) < PAGE:
            return
        last, life, ms, *_ = rows[-1]
        given |= {"last": last, "life": life, "ms": ms}
        statement = EVENTS_STATEMENT.replace("{after}", AFTER)
        left = None if left is None else left - len(rows)


def event_of(row: tuple[Any, ...]) -> AgentEvent:
    """One row as an event."""
    task, life, ms, agent, type, event, dag, duration, cost, given, gave, model, error = row
    return AgentEvent(
        task_id=task_id(task),
        life=life,
        at=moment(ms),
        agent=agent,
        type=type,
        event=event,
        dag_id=None if dag is None else DagId.from_ulid(ulid_of(dag.int)),
        duration_sec=duration,
        cost_usd=Decimal(cost) / MICRO,
        tokens_input=given,
        tokens_output=gave,
        model=model,
        error=error,
    )


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
