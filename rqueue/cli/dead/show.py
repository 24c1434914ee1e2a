"""`rqueue dead show`: everything needed to decide about one dead task, on one page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.next_steps import program
from rqueue.cli.output.tables import (
    WIDTH,
    Columns,
    Printer,
    clean,
    clock,
    cut,
    exact,
    gist,
    note,
    span,
)
from rqueue.cli.session import on_queue
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.task.attempt.blame import blamed_workers
from rqueue.task.forms import view
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.dead.admin import DeadOperations
    from rqueue.dead.reviews import Review
    from rqueue.queue import Queue
    from rqueue.task.attempt.outcome import AttemptRecord
    from rqueue.task.ids import TaskId
    from rqueue.task.task import Task

NAMED = 10
# Lines shown of an error and of a payload, and how many of them from its end. `rqueue task --field`
# prints all of it.
MOST_LINES, FROM_END = 40, 20

ATTEMPTS: Columns[AttemptRecord] = {
    "ATTEMPT": lambda one: str(one.attempt),
    "WHEN": lambda one: clock(one.at) if one.at else "",
    "AGENT": lambda one: one.agent or "",
    "REASON": lambda one: one.reason,
    "TOOK": lambda one: "" if one.duration_sec is None else took(one.duration_sec),
    "COST": lambda one: exact(one.cost_usd) if one.cost_usd else "",
    "TOKENS": lambda one: str(one.tokens or ""),
    "MODEL": lambda one: one.model or "",
    "ERROR": lambda one: gist(one.error, WIDTH),
}
REVIEWS: Columns[Review] = {
    "WHEN": lambda one: clock(one.at),
    "LIFE": lambda one: str(one.life),
    "BY": lambda one: one.by,
    "DECISION": lambda one: one.resolution,
    "CAUSE": lambda one: one.cause,
    "UNTIL": lambda one: clock(one.not_before) if one.not_before else "",
    "NOTE": lambda one: cut(one.note, WIDTH),
}
WAYS = (
    ("retry it unchanged", "retry {task} --cause agent_bug --note '...'"),
    ("change its payload and retry it", "edit {task} --note '...'"),
    ("retry it later", "wait {task} --for 3600 --cause dependency_down"),
    ("escalate it to another reviewer", "escalate {task} --cause needs_human --note '...'"),
    ("cancel it", "cancel {task} --note '...'"),
    ("delete it", "delete {task} --cause invalid_task"),
)


async def decided(operations: DeadOperations, task: TaskId) -> list[Review]:
    """Earlier decisions about a task. If the archive is unavailable or not configured here, only
    those that Redis still has.
    """
    try:
        return [review async for review in operations.reviews(None, None, task)]
    except (StoreUnavailable, ConfigError) as error:
        note(f"earlier decisions may be missing: {error}")
    return list((await operations.waiting(None, None, task)).values())


@click.command()
@click.argument("task", metavar="TASK")
@on_queue
async def show(queue: Queue, out: Printer, task: str) -> None:
    """Show the attempts of a dead task, its dependents, and the commands to decide."""
    found = await queue.get(task)
    operations = queue._internals.dead
    reviews = await decided(operations, found.id)
    number, some = await operations.waiting_for(found.id, limit=NAMED)
    if out.as_json:
        waiting = {"number": number, "some": some}
        out.json({**document(found), "waiting": waiting, "reviews": list(map(row_of, reviews))})
        return
    for name, value in facts(found).items():
        if value:
            click.echo(f"{name:10} {clean(value)}")
    if number:
        click.echo(f"{'dependents':10} {waiting_line(number, some)}")
    print_text("error", found.last_error or "")
    print_text("payload", json.dumps(found.payload, indent=2))
    click.echo()
    out.rows(found.failure_history, ATTEMPTS, lambda one: one)
    for attempt in with_more(found):
        when = f", {clock(attempt.at)}" if attempt.at else ""
        print_text(f"attempt {attempt.attempt}{when}", attempt.error)
    if reviews:
        click.echo()
        out.rows(reviews, REVIEWS, row_of)
    if found.state is State.DEAD_LETTERED:
        print_ways(found.id, queue.name)


def facts(found: Task) -> dict[str, str]:
    """The facts that fit in one line, by name."""
    from rqueue.dead.admin import died  # noqa: PLC0415 - commands import what they call
    from rqueue.dead.decide import fingerprint_of  # noqa: PLC0415

    id, pattern = fingerprint_of(found)
    names = ", ".join(blamed_workers(found.failed_by))
    ago = span((SYSTEM.now() - died(found)).total_seconds())
    used = found.tokens_used.input + found.tokens_used.output
    tokens = f", {used} tokens" if used else ""
    return {
        "task": found.id,
        "type": found.type,
        "title": found.spec.title or "",
        "dag": found.dag or "",
        "tags": ", ".join(found.spec.tags),
        "by": found.spec.created_by or "",
        "state": f"{found.state} since {clock(died(found))}, {ago} ago; life {found.life}",
        "reason": found.failure_reason or "",
        "poison": f"failed on several workers: {names}" if found.poison_pill else "",
        "decided": found.resolution or "" if found.reviewed else "",
        "attempts": f"{found.attempts} of {found.spec.max_attempts} failed in this life",
        "cost": f"{exact(found.cost_usd)} USD in all{tokens}",
        "cluster": f"{id} {cut(pattern, WIDTH)}",
        "unreadable": found.unreadable or "",
    }


def with_more(found: Task) -> Iterator[AttemptRecord]:
    """Yields the attempts whose error is longer than its cell of the table, each text once. The
    last error is left out, because it is shown above.
    """
    seen = {found.last_error or ""}
    for one in found.failure_history:
        if one.error not in seen and gist(one.error, WIDTH) != one.error.strip():
            seen.add(one.error)
            yield one


def took(seconds: float) -> str:
    """How long an attempt took."""
    return span(seconds) if seconds >= 60 else f"{seconds:.1f}s"  # noqa: PLR2004 (a minute)


def waiting_line(number: int, some: list[TaskId]) -> str:
    """The dependents of a task: their number and the first of them."""
    rest = f" and {number - len(some)} more" if number > len(some) else ""
    return f"{number}: {', '.join(some)}{rest}"


def print_text(name: str, text: str) -> None:
    """Prints a text of several lines below its name, with control characters escaped."""
    lines = text.strip().split("\n") if text.strip() else []
    if not lines:
        return
    click.echo(f"\n{name}")
    if len(lines) > MOST_LINES:
        left_out = f"... {len(lines) - MOST_LINES} more lines"
        lines = [*lines[: MOST_LINES - FROM_END], left_out, *lines[-FROM_END:]]
    for line in lines:
        click.echo(f"  {clean(line.expandtabs())}")


def print_ways(task: TaskId, queue: str) -> None:
    """Prints the commands that decide about the task."""
    click.echo("\ndecide:")
    for what, way in WAYS:
        click.echo(f"  {what}")
        click.echo(f"    {program()} dead {way.format(task=task)} --queue {queue}")


def document(found: Task) -> dict[str, object]:
    """The task as `rqueue task` prints it, with its fingerprint and pattern."""
    from rqueue.dead.admin import died  # noqa: PLC0415
    from rqueue.dead.decide import fingerprint_of  # noqa: PLC0415

    return {
        **view(found),
        "dead_lettered_at": died(found).isoformat(),
        "fingerprint": fingerprint_of(found).id,
        "pattern": fingerprint_of(found).pattern,
    }


def row_of(review: Review) -> dict[str, object]:
    """A review as a JSON document."""
    return dict(fields_of(review))


def fields_of(review: Review) -> Iterator[tuple[str, object]]:
    """Yields the fields of a review that are set."""
    yield "task", review.task
    yield "life", review.life
    yield "at", review.at.isoformat()
    yield "resolution", review.resolution
    for name in ("by", "cause", "note", "type", "reason", "error", "fingerprint"):
        if value := getattr(review, name):
            yield name, value
    if review.not_before is not None:
        yield "not_before", review.not_before.isoformat()
    if review.diff:
        yield "diff", review.diff
