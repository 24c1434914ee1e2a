"""What agents did: one event for each life that ended, where the queue has them written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rqueue.archive.reader import task_id
from rqueue.model.checked import Checked, Instant
from rqueue.model.ids import DagId, TaskId
from rqueue.model.ulid import ulid_of
from rqueue.store.values import moment

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from rqueue.archive.reader import ArchiveReader

PAGE = 1_000
MICRO = 1_000_000

STATEMENT = (
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
    statement, left = STATEMENT.replace("{after}", ""), limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = await reader.search(statement, {**given, "limit": size})
        for row in rows:
            yield event_of(row)
        if len(rows) < PAGE:
            return
        last, life, ms, *_ = rows[-1]
        given |= {"last": last, "life": life, "ms": ms}
        statement = STATEMENT.replace("{after}", AFTER)
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
