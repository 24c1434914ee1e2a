"""Reports from the archive: costs in groups, events of agents, and reviews of dead tasks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.connection import SEARCH_SEC
from rqueue.archive.copying import storable
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
    from rqueue.archive.filters import By
    from rqueue.archive.reader import ArchiveReader


COLUMNS: dict[By, str] = {
    "type": "s.type",
    "agent": "s.agent",
    "worker": "s.worker",
    "model": "s.model",
    # As text: a stored time may be outside the range of Python's dates.
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
    """The total cost of one group. Only the fields that were grouped by are set; None is an unknown
    value, such as the model of a cost that was reported without one. `tasks` is the number of tasks
    in the group.
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
    """Returns the totals: by day the latest first, else the largest first. Without `by`, one total
    of everything.
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
    """Returns one row as a Spent."""
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
    """The end of a task, as an event of its agent: `task.completed`, `task.cancelled` or
    `task.dead_lettered`.
    """

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
class EventFilter:
    """A filter of events; all given conditions must match. `until` is excluded."""

    agent: str | None = None
    task: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    def parameters(self) -> dict[str, object]:
        """Returns the parameters of the statement."""
        return {
            "agent": self.agent,
            "task": self.task,
            "since": self.since,
            "until": self.until,
        }


async def events(
    reader: ArchiveReader, wanted: EventFilter, *, limit: int | None = None
) -> AsyncIterator[AgentEvent]:
    """Yields the matching events, newest first, read in pages."""
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
    """Returns one row as an AgentEvent."""
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


class ReviewFilter(NamedTuple):
    """A filter of reviews: of a queue, from `since` to before `until`, of all tasks or of one."""

    queue: str
    since: datetime | None = None
    until: datetime | None = None
    only: TaskId | None = None


def is_fit(review: Review) -> bool:
    """Returns whether a review can be stored as a row. Other clients may have written invalid ones
    to the stream.
    """
    try:
        TaskId.parse(str(review.task))
    except InvalidTask:
        return False
    return review.life <= MOST_LIVES


async def write_reviews(archive: Archive, queue: str, reviews: Sequence[Review]) -> None:
    """Commits reviews durably. Existing rows are not changed."""
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
    """Returns a review as a row; empty texts are NULL."""
    texts = {name: storable(getattr(review, name)) or None for name in TEXTS}
    return {
        **texts,
        "queue": queue,
        "entry": review.entry,
        "task": review.task.uuid,
        "life": review.life,
        "at": review.at,
        "resolution": storable(review.resolution),
        "not_before": review.not_before,
        "diff": json.dumps(review.diff) if review.diff else None,
    }


async def read_reviews(archive: Archive, wanted: ReviewFilter) -> AsyncIterator[Review]:
    """Yields the matching reviews, oldest first."""
    facts: dict[str, Any] = {**wanted._asdict(), "limit": PAGE}
    facts["only"] = None if wanted.only is None else wanted.only.uuid
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
    """Returns a row as a Review."""
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
