"""`rqueue tasks` and `rqueue task`: what is there, and the life of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.output import Columns, Printer, clean, cut, gist, note, span
from rqueue.cli.session import on_queue
from rqueue.cli.timeline import WIDTH, clock, timeline
from rqueue.client.rebuilding import FROM
from rqueue.clock import SYSTEM
from rqueue.errors import ArtifactsUnavailable
from rqueue.model.forms import FORMS, Form, view
from rqueue.model.state import LIVE, State
from rqueue.policy.blame import sure_of

if TYPE_CHECKING:
    from rqueue.model.task import Task
    from rqueue.queue import Queue

LIMIT = 100
NOTE_WIDTH = 60
# Ended tasks are in no list but the dead: they are asked for by id.
LISTED = [str(state) for state in State if state in LIVE or state is State.DEAD_LETTERED]
STATUS = click.Choice(LISTED, case_sensitive=False)


def priority(task: Task) -> str:
    """The priority that counts now."""
    known = task.effective_priority
    return f"{task.spec.priority if known is None else known:.1f}"


def age(task: Task) -> str:
    """How long ago it was submitted."""
    return span((SYSTEM.now() - task.created_at).total_seconds())


COLUMNS: Columns[Task] = {
    "ID": lambda task: str(task.id),
    "TYPE": lambda task: task.type,
    "STATE": lambda task: task.state,
    "PRIORITY": priority,
    "FAILED": lambda task: f"{task.attempts}/{task.spec.max_attempts}",
    "AGE": age,
    "WORKER": lambda task: task.claim.agent_id if task.claim else "",
    "LAST ERROR": lambda task: gist(task.last_error, NOTE_WIDTH),
}


@click.command()
@click.option("--status", multiple=True, type=STATUS, help="In this state. [repeatable]")
@click.option("--type", help="Of this type.")
@click.option("--tag", help="With this tag.")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@on_queue
async def tasks(
    queue: Queue, out: Printer, *, status: tuple[str, ...], limit: int, **wanted: str | None
) -> None:
    """List tasks that have not ended.

    The dead are listed with --status DEAD_LETTERED; what has completed is asked for by its id.
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
        note(f"there are more than {limit}: narrow the filter, or raise --limit")


@click.command()
@click.argument("task", metavar="ID")
@click.option("--form", type=click.Choice(FORMS, case_sensitive=False), help="As this document.")
@click.option("--field", metavar="NAME", help="Print this field alone, such as payload.")
@on_queue
async def task(
    queue: Queue, out: Printer, task: str, *, form: Form | None, field: str | None
) -> None:
    """Show one task and its life as a timeline.

    With --json or --form the whole of it.
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
    """A task with its result; without it, where the store of artifacts is away."""
    try:
        return await queue.get(task)
    except ArtifactsUnavailable as error:
        note(f"the result is left out: {error}")
        return await queue.desk.get(task)


def print_field(document: dict[str, Any], field: str) -> None:
    """One field as a shell likes it: text as it is, anything else as JSON."""
    if field not in document:
        raise click.UsageError(f"--field {field}: it has {', '.join(sorted(document))}")
    value = document[field]
    click.echo(value if isinstance(value, str) else json.dumps(value))


def result_of(found: Task) -> str | None:
    """What it returned, or that this is gone."""
    if found.result_missing:
        return "missing: what it is kept as is gone or damaged"
    return cut(json.dumps(found.result), WIDTH) if found.result is not None else None


def print_life(found: Task) -> None:
    """The task and its timeline, for people."""
    spec, boost = found.spec, found.dependency_boost
    names = ", ".join(sure_of(found.failed_by))
    facts = {
        "task": found.id,
        "dag": found.dag,
        "title": spec.title,
        "type": found.type,
        "state": found.state,
        "tags": ", ".join(spec.tags),
        "was": spec.headers.get(FROM),
        "boost": f"{boost:.2f} points more urgent by the critical path" if boost else None,
        "failed": f"{found.attempts} of {spec.max_attempts} attempts",
        "poison": f"it fails wherever it runs: {names}" if found.poison_pill else None,
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
