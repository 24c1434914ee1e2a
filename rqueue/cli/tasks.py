"""Commands that list, show, explain and change tasks, and pause or resume their delivery."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.main import nothing
from rqueue.cli.output.tables import Columns, Printer, clean, cut, gist, note, span
from rqueue.cli.output.timeline import WIDTH, clock, timeline
from rqueue.cli.session import Command, on_queue
from rqueue.clock import SYSTEM
from rqueue.errors import ArtifactsUnavailable
from rqueue.task.attempt.blame import blamed_workers
from rqueue.task.forms import FORMS, Form, view
from rqueue.task.state import LEASED, LIVE, State

if TYPE_CHECKING:
    from rqueue.explain.explain import Explanation, Terms
    from rqueue.explain.why import Why
    from rqueue.queue import Queue
    from rqueue.task.task import Task


LIMIT = 100
NOTE_WIDTH = 60
# Of ended tasks only the dead are listed; the others are shown by id.
LISTED = [str(state) for state in State if state in LIVE or state is State.DEAD_LETTERED]
STATUS = click.Choice(LISTED, case_sensitive=False)


def shown_priority(task: Task) -> str:
    """The effective priority, or the given one where none is known."""
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
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LIMIT,
    show_default=True,
    help="Maximum number of rows.",
)
@on_queue
async def tasks(
    queue: Queue, out: Printer, *, status: tuple[str, ...], limit: int, **wanted: str | None
) -> None:
    """List tasks that have not ended.

    Dead tasks are listed with --status DEAD_LETTERED. Completed tasks are not
    listed; show one with `rqueue task ID`.
    """
    found: list[Task] = []
    more = False
    walk = queue.find(states=status or None, type=wanted["type"], tag=wanted["tag"])
    async for task in walk:
        if len(found) == limit:
            more = True
            break
        found.append(task)
    found.sort(key=lambda task: (task.state, task.effective_priority or 0.0, task.id))
    out.rows(found, COLUMNS, view)
    if more:
        note(f"there are more than {limit}: narrow the filter or raise --limit")


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
        print_life(found)


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
        return "missing: its artifact is gone or damaged"
    return cut(json.dumps(found.result), WIDTH) if found.result is not None else None


def print_life(found: Task) -> None:
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
        "was": spec.headers.get(FROM),
        "boost": f"{boost:.2f} points more urgent because of the critical path" if boost else None,
        "failed": f"{found.attempts} of {spec.max_attempts} attempts",
        "poison": f"failed on several workers: {names}" if found.poison_pill else None,
        "steps": cut(", ".join(found.steps), WIDTH),
        "payload": cut(json.dumps(found.payload), WIDTH),
        "put": ", ".join(f"{one.name} ({one.reference})" for one in found.attached),
        "kept as": found.result_artifact,
        "result": result_of(found),
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{name:8} {clean(str(value))}")
    click.echo()
    for event in timeline(found):
        when = clock(event.at) if event.at else "now"
        click.echo(f"{when:20} {event.what:18} {clean(event.detail)}".rstrip())


@click.command()
@click.argument("task", metavar="ID")
@click.argument("number", metavar="N", type=float)
@click.option("--scale", help="Scale of N: native, 1-10 or 0-3. [default: the queue's]")
@on_queue
async def priority(
    queue: Queue, out: Printer, task: str, number: float, *, scale: str | None
) -> None:
    """Change the priority of a task; its age still counts."""
    await queue.set_priority(task, number, scale=scale)
    found = await queue.get(task)
    native = found.spec.priority
    out.one({"id": found.id, "priority": native}, f"{found.id} has priority {native:g}")


@click.command()
@click.argument("task", metavar="ID")
@click.option("--delay", type=float, metavar="SEC", help="Seconds from now.")
@click.option("--at", metavar="TIME", help="A time, such as 2030-01-31T12:00:00Z.")
@on_queue
async def reschedule(
    queue: Queue, out: Printer, task: str, *, delay: float | None, at: str | None
) -> None:
    """Change the time at which a waiting task becomes ready."""
    if (delay is None) == (at is None):
        raise click.UsageError("give either --delay or --at")
    await queue.reschedule(task, delay=delay, at=None if at is None else instant(at))
    found = await queue.get(task)
    until = found.available_at.isoformat() if found.available_at else ""
    out.one({"id": found.id, "available_at": until}, f"{found.id} waits until {until}")


def instant(text: str, option: str = "--at") -> datetime:
    """The instant in a text. The queue refuses one without a time zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{option} {text}: use ISO 8601, such as 2030-01-31T12:00:00Z"
        ) from error


@click.command("run-now")
@click.argument("task", metavar="ID")
@on_queue
async def run_now(queue: Queue, out: Printer, task: str) -> None:
    """Make a task that waits for its time ready now.

    Exit 1 if the task was not waiting for its time.
    """
    moved = await queue.run_now(task)
    found = await queue.get(task)
    out.one({"id": found.id, "state": found.state}, f"{found.id} {found.state}")
    if not moved:
        note(f"{found.id} was not waiting for its time")
        raise nothing()


def gated(command: Command) -> Command:
    """Adds the options that select what is paused or resumed."""
    lane = click.option("--lane", type=int, metavar="N", help="Only this lane.")
    type = click.option("--type", metavar="TYPE", help="Only this type.")
    return type(lane(command))


def one_gate(type: str | None, lane: int | None) -> str:
    """The selected part of the queue as text."""
    if type is not None and lane is not None:
        raise click.UsageError("give either --type or --lane")
    if type is not None:
        return f"type {type}"
    return "the queue" if lane is None else f"lane {lane}"


@click.command()
@gated
@on_queue
async def pause(queue: Queue, out: Printer, *, type: str | None, lane: int | None) -> None:
    """Pause the queue, a type or a lane.

    Its tasks are no longer claimed; running tasks continue.
    """
    what = one_gate(type, lane)
    await queue.pause(type=type, lane=lane)
    out.one({"paused": what}, f"{what} is paused")


@click.command()
@gated
@on_queue
async def resume(queue: Queue, out: Printer, *, type: str | None, lane: int | None) -> None:
    """Resume the queue, a type or a lane."""
    what = one_gate(type, lane)
    await queue.resume(type=type, lane=lane)
    out.one({"resumed": what}, f"{what} is resumed")


@dataclass(frozen=True, slots=True)
class Row:
    """One term of the effective priority."""

    term: str
    points: float
    how: str = ""


ROWS: Columns[Row] = {
    "TERM": lambda row: row.term,
    "POINTS": lambda row: f"{row.points:+.2f}" if row.how else f"{row.points:.2f}",
    "": lambda row: row.how,
}


@click.command()
@click.argument("task", metavar="ID")
@on_queue
async def explain(queue: Queue, out: Printer, task: str) -> None:
    """Show how the priority of a task is computed.

    Prints the terms of its effective priority (a claim takes the lowest first), its lane, its
    position in the lane, and how many tasks of all lanes come before it.
    """
    found = await queue.explain(task)
    if out.as_json:
        out.json(explain_document(found))
        return
    click.echo(f"{found.task} is {found.state}\n")
    out.rows(rows(found), ROWS, asdict)
    click.echo(f"\n{clean(place(found))}")


def rows(found: Explanation) -> list[Row]:
    """The effective priority, one term in each row."""
    terms = found.terms
    lines = [Row("base", terms.base), Row("age", -terms.age_boost, aged(terms))]
    if terms.slack_sec is not None:
        lines.append(Row("deadline", -terms.deadline_boost, slack(terms)))
    if terms.path_boost:
        lines.append(
            Row("critical path", -terms.path_boost, "it is on the critical path of its DAG")
        )
    return [*lines, Row(f"effective, {found.tier.value}", terms.effective)]


def aged(terms: Terms) -> str:
    """The age of the task and the boost per minute."""
    return f"{span(terms.age_sec)} at {terms.rate:g} a minute"


def slack(terms: Terms) -> str:
    """The slack until the deadline, and the boost it gives at this moment."""
    left = terms.slack_sec or 0.0
    when = f"{span(left)} left" if left > 0 else f"{span(-left)} late"
    return f"{when}; {terms.deadline_boost_now:.2f} now, stored in whole points"


def place(found: Explanation) -> str:
    """The position of the task, as text."""
    from rqueue.core.workers import requirements_of  # noqa: PLC0415

    exclusive = ", one at a time" if found.lane.exclusive else ""
    where = f"lane {found.lane_number} ({requirements_of(found.lane)}{exclusive})"
    if found.position is None:
        return f"held by {found.worker or 'a worker'}, from {where}"
    at = "at" if found.stands else f"{found.state}, not in its lane; it would be at"
    before = f"{found.ahead} tasks of all lanes come before it"
    return f"{at} position {found.position} in {where}; {before}"


def explain_document(found: Explanation) -> dict[str, object]:
    """The explanation as a JSON document."""
    return {
        "id": found.task,
        "state": found.state,
        **asdict(found.terms),
        "tier": found.tier.value,
        "lane": {"number": found.lane_number, **asdict(found.lane)},
        "stands": found.stands,
        "position": found.position,
        "ahead": found.ahead,
        "worker": found.worker,
    }


@click.command()
@click.argument("task", metavar="ID")
@on_queue
async def why(queue: Queue, out: Printer, task: str) -> None:
    """Show why a task does not run yet.

    Prints everything that blocks it now: dependencies, its time, pauses, breakers, limits, budgets,
    no suitable worker; and the earliest time at which it can start. For a task with a limit key
    also how many tasks have their turn before it.
    """
    from rqueue.explain.why import sentence_of  # noqa: PLC0415

    found = await queue.why(task)
    if out.as_json:
        out.json(why_document(found))
        return
    click.echo(f"{found.task} is {found.state}")
    for hold in found.holds:
        until = f" until {hold.until.isoformat(timespec='seconds')}" if hold.until else ""
        click.echo(f"- {clean(sentence_of(hold))}{until}")
    click.echo(conclusion(found))


def conclusion(found: Why) -> str:
    """When the task can start, as one line."""
    if found.state in LEASED:
        return "a worker holds it"
    ahead = found.ahead if found.turns is None else found.turns
    come = "come before it" if found.turns is None else "have their turn before it"
    turn = f"{ahead} tasks {come}" if ahead else "it is next"
    if not found.holds:
        return f"nothing blocks it: {turn}"
    if found.earliest is None:
        return "it can start when none of these blocks it"
    return f"it can start at {found.earliest.isoformat(timespec='seconds')}; {turn}"


def why_document(found: Why) -> dict[str, object]:
    """The reasons as a JSON document."""
    from rqueue.explain.why import sentence_of  # noqa: PLC0415

    return {
        "id": found.task,
        "state": found.state,
        "holds": [
            {
                "word": hold.word,
                "what": hold.what,
                "until": hold.until.isoformat() if hold.until else None,
                "told": sentence_of(hold),
            }
            for hold in found.holds
        ],
        "earliest": found.earliest.isoformat() if found.earliest else None,
        "ahead": found.ahead,
        "turns": found.turns,
    }
