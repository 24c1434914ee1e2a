"""The timeline of a task: its submission, each failed attempt and its current state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rqueue.cli.output.tables import gist
from rqueue.task.state import MEANINGS, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.task.attempt.outcome import AttemptRecord
    from rqueue.task.task import Claim, Task

WIDTH = 160


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a task; `at` is None if no time is known."""

    at: datetime | None
    what: str
    detail: str = ""

    def document(self) -> dict[str, object]:
        """The event as a JSON document."""
        return {**asdict(self), "at": self.at.isoformat() if self.at else None}


def timeline(task: Task) -> list[Event]:
    """The events, oldest first; the last one is the current state."""
    creator = task.spec.created_by
    by = f"by {creator}, " if creator else ""
    events = [Event(task.created_at, "submitted", f"{by}priority {task.spec.priority:g}")]
    events += [failed(record) for record in task.failure_history]
    if task.claim is not None:
        events += holding(task, task.claim)
    elif task.started_at is not None and task.state is State.COMPLETED:
        events.append(Event(task.started_at, "started"))
    return [*events, now(task)]


def failed(record: AttemptRecord) -> Event:
    """The event of a failed attempt."""
    where = f" on {record.agent}" if record.agent else ""
    error = f": {gist(record.error, WIDTH)}" if record.error else ""
    return Event(record.at, f"attempt {record.attempt} failed", f"{record.reason}{where}{error}")


def holding(task: Task, claim: Claim) -> Iterator[Event]:
    """Yields the events of the current claim."""
    yield Event(claim.claimed_at, "claimed", f"by {claim.agent_id}")
    if task.started_at is not None:
        yield Event(task.started_at, "started", f"attempt {task.attempts + 1}")
    yield Event(
        claim.heartbeat_at, "last heartbeat", f"lease until {clock(claim.lease_expires_at)}"
    )


def now(task: Task) -> Event:
    """The current state, and what the task waits for."""
    match task.state:
        case State.COMPLETED:
            return Event(task.completed_at, task.state)
        case State.CANCELLED:
            return Event(task.cancelled_at, task.state, task.cancel_reason or "")
        case State.DEAD_LETTERED:
            pill = ", poison pill" if task.poison_pill else ""
            return Event(task.updated_at, task.state, (task.failure_reason or "") + pill)
        case State.PENDING | State.RETRYING:
            return Event(None, task.state, waiting(task))
        case State.READY if task.effective_priority is not None:
            place = f"effective priority {task.effective_priority:.2f} ({task.tier.value})"
            return Event(None, task.state, place)
        case _:
            return Event(None, task.state, MEANINGS[task.state])


def waiting(task: Task) -> str:
    """What a task waits for."""
    parts = [f"until {clock(task.available_at)}"] if task.available_at else []
    parts += [f"for {', '.join(task.blocked_by)}"] if task.blocked_by else []
    return " and ".join(parts)


def clock(at: datetime) -> str:
    """An instant in UTC as text."""
    return at.strftime("%Y-%m-%d %H:%M:%S")
