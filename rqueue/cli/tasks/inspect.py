"""`rqueue tasks` and `rqueue task`: tasks as a list, and one task with its timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.options import row_limit
from rqueue.cli.output.tables import WIDTH, Columns, Printer, clean, clock, cut, gist, note, span
from rqueue.cli.session import on_queue
from rqueue.clock import SYSTEM
from rqueue.errors import ArtifactsUnavailable
from rqueue.task.attempt.blame import blamed_workers
from rqueue.task.forms import FORMS, Form, view
from rqueue.task.state import LIVE, MEANINGS, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.queue import Queue
    from rqueue.task.attempt.outcome import AttemptRecord
    from rqueue.task.task import Claim, Task

NOTE_WIDTH = 60
# Of ended tasks only the dead are listed; the others are shown by id.
LISTED = [str(state) for state in State if state in LIVE or state is State.DEAD_LETTERED]
STATUS = click.Choice(LISTED, case_sensitive=False)


def shown_priority(task: Task) -> str:
    """The effective priority; without one, the given priority."""
    known = task.effective_priority
    return f"{task.spec.priority if known is None else known:.1f}"


def age(task: Task) -> str:
    """The time since the task was submitted."""
    return span((SYSTEM.now() - task.created_at).total_seconds())


COLUMNS: Columns[Task] = {
    "ID": lambda task: str(task.id),
    "TYPE": lambda task: task.type,
    "STATE": lambda task: task.state,
    "PRIORITY": shown_priority,
    "FAILED": lambda task: f"{task.attempts}/{task.spec.max_attempts}",
    "AGE": age,
    "WORKER": lambda task: task.claim.agent_id if task.claim else "",
    "LAST ERROR": lambda task: gist(task.last_error, NOTE_WIDTH),
}


@click.command()
@click.option("--status", multiple=True, type=STATUS, help="Only tasks in this state. [repeatable]")
@click.option("--type", help="Only tasks of this type.")
@click.option("--tag", help="Only tasks with this tag.")
@row_limit
@on_queue
async def tasks(
    queue: Queue, out: Printer, *, status: tuple[str, ...], limit: int, **wanted: str | None
) -> None:
    """List tasks that have not ended.

    Dead tasks are listed with --status DEAD_LETTERED. Completed tasks are not
    listed; show one with `rqueue task ID`.
    """

    def order(task: Task) -> tuple[State, float, str]:
        return task.state, task.effective_priority or 0.0, task.id

    found = queue.find(states=status or None, type=wanted["type"], tag=wanted["tag"])
    await out.first_rows(found, limit, COLUMNS, view, order=order)


@click.command()
@click.argument("task", metavar="ID")
@click.option(
    "--form",
    type=click.Choice(FORMS, case_sensitive=False),
    help="Print the task in this document form.",
)
@click.option("--field", metavar="NAME", help="Print only this field, such as payload.")
@on_queue
async def task(
    queue: Queue, out: Printer, task: str, *, form: Form | None, field: str | None
) -> None:
    """Show a task and its timeline.

    With --json or --form, all fields are printed.
    """
    found = await whole(queue, task)
    if field is not None:
        print_field(view(found, form or "native"), field)
    elif form is not None:
        out.json(view(found, form))
    elif out.as_json:
        events = [event.document() for event in timeline(found)]
        out.json({**view(found), "timeline": events})
    else:
        print_task(found)


async def whole(queue: Queue, task: str) -> Task:
    """The task with its result; without the result if the artifact store is unavailable."""
    try:
        return await queue.get(task)
    except ArtifactsUnavailable as error:
        note(f"the result is not shown: {error}")
        return await queue._internals.operations.get(task)


def print_field(document: dict[str, Any], field: str) -> None:
    """Prints one field for use in a shell: strings unquoted, all other values as JSON."""
    if field not in document:
        raise click.UsageError(f"--field {field}: the fields are {', '.join(sorted(document))}")
    value = document[field]
    click.echo(value if isinstance(value, str) else json.dumps(value))


def result_of(found: Task) -> str | None:
    """The result as JSON, or that its artifact is missing; None without a result."""
    if found.result_missing:
        return "missing: its artifact was deleted or is damaged"
    return cut(json.dumps(found.result), WIDTH) if found.result is not None else None


def print_task(found: Task) -> None:
    """Prints the task and its timeline as text."""
    from rqueue.dead.rebuild import FROM  # noqa: PLC0415 - commands import what they call

    spec, boost = found.spec, found.dependency_boost
    names = ", ".join(blamed_workers(found.failed_by))
    facts = {
        "task": found.id,
        "dag": found.dag,
        "title": spec.title,
        "type": found.type,
        "state": found.state,
        "tags": ", ".join(spec.tags),
        "old id": spec.headers.get(FROM),
        "boost": f"{boost:.2f} points more urgent because of the critical path" if boost else None,
        "failed": f"{found.attempts} of {spec.max_attempts} attempts",
        "poison": f"failed on several workers: {names}" if found.poison_pill else None,
        "steps": cut(", ".join(found.steps), WIDTH),
        "payload": cut(json.dumps(found.payload), WIDTH),
        "attached": ", ".join(f"{one.name} ({one.reference})" for one in found.attached),
        "stored": found.result_artifact,
        "result": result_of(found),
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{name:8} {clean(str(value))}")
    click.echo()
    for event in timeline(found):
        when = clock(event.at) if event.at else "now"
        click.echo(f"{when:20} {event.what:18} {clean(event.detail)}".rstrip())


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
    events += [failed_attempt(record) for record in task.failure_history]
    if task.claim is not None:
        events += claim_events(task, task.claim)
    elif task.started_at is not None and task.state is State.COMPLETED:
        events.append(Event(task.started_at, "started"))
    return [*events, current_state(task)]


def failed_attempt(record: AttemptRecord) -> Event:
    """The event of a failed attempt."""
    where = f" on {record.agent}" if record.agent else ""
    error = f": {gist(record.error, WIDTH)}" if record.error else ""
    return Event(record.at, f"attempt {record.attempt} failed", f"{record.reason}{where}{error}")


def claim_events(task: Task, claim: Claim) -> Iterator[Event]:
    """Yields the events of the current claim."""
    yield Event(claim.claimed_at, "claimed", f"by {claim.agent_id}")
    if task.started_at is not None:
        yield Event(task.started_at, "started", f"attempt {task.attempts + 1}")
    yield Event(
        claim.heartbeat_at, "last heartbeat", f"lease until {clock(claim.lease_expires_at)}"
    )


def current_state(task: Task) -> Event:
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
