"""`rqueue dead show`: all that a person needs to decide about one dead task, on one page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from rqueue.cli.budget import shown
from rqueue.cli.next_steps import program
from rqueue.cli.output import Columns, Printer, clean, cut, gist, note, span
from rqueue.cli.session import on_queue
from rqueue.cli.timeline import WIDTH, clock
from rqueue.client.deciding import fingerprint_of
from rqueue.client.reviewing import died
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.model.forms import view
from rqueue.model.state import State
from rqueue.policy.blame import sure_of

if TYPE_CHECKING:
    from rqueue.client.reviewing import ReviewDesk
    from rqueue.model.attempt import AttemptRecord
    from rqueue.model.ids import TaskId
    from rqueue.model.review import Review
    from rqueue.model.task import Task
    from rqueue.queue import Queue

NAMED = 10
# Lines of an error and of a payload, from its beginning and from its end; `rqueue task --field` has
# the rest.
MOST_LINES, FROM_END = 40, 20

ATTEMPTS: Columns[AttemptRecord] = {
    "ATTEMPT": lambda one: str(one.attempt),
    "WHEN": lambda one: clock(one.at) if one.at else "",
    "AGENT": lambda one: one.agent or "",
    "REASON": lambda one: one.reason,
    "TOOK": lambda one: "" if one.duration_sec is None else took(one.duration_sec),
    "COST": lambda one: shown(one.cost_usd) if one.cost_usd else "",
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
    ("try it again as it is", "retry {task} --cause agent_bug --note '...'"),
    ("change its payload and try again", "edit {task} --note '...'"),
    ("try it again later", "wait {task} --for 3600 --cause dependency_down"),
    ("ask somebody who may decide", "escalate {task} --cause needs_human --note '...'"),
    ("give it up", "cancel {task} --note '...'"),
    ("it should never have been", "delete {task} --cause invalid_task"),
)


async def decided(desk: ReviewDesk, task: TaskId) -> list[Review]:
    """What was decided about a task before; an archive that is away, or that nobody here knows of,
    keeps nobody from looking.
    """
    try:
        return [review async for review in desk.reviews(None, None, task)]
    except (StoreUnavailable, ConfigError) as error:
        note(f"what was decided before may be missing: {error}")
    return list((await desk.waiting(None, None, task)).values())


@click.command()
@click.argument("task", metavar="TASK")
@on_queue
async def show(queue: Queue, out: Printer, task: str) -> None:
    """Show why a task died, attempt by attempt, what waits for it, and how to decide."""
    found = await queue.get(task)
    desk = queue.review_desk
    reviews = await decided(desk, found.id)
    number, some = await desk.waiting_for(found.id, limit=NAMED)
    if out.as_json:
        waiting = {"number": number, "some": some}
        out.json({**document(found), "waiting": waiting, "reviews": list(map(row_of, reviews))})
        return
    for name, value in facts(found).items():
        if value:
            click.echo(f"{name:10} {clean(value)}")
    if number:
        click.echo(f"{'waits':10} {waiting_line(number, some)}")
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
    """What is known in one line each."""
    id, pattern = fingerprint_of(found)
    names = ", ".join(sure_of(found.failed_by))
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
        "poison": f"it fails wherever it runs: {names}" if found.poison_pill else "",
        "decided": found.resolution or "" if found.reviewed else "",
        "attempts": f"{found.attempts} of {found.spec.max_attempts} failed in this life",
        "cost": f"{shown(found.cost_usd)} USD in all{tokens}",
        "cluster": f"{id} {cut(pattern, WIDTH)}",
        "unreadable": found.unreadable or "",
    }


def with_more(found: Task) -> Iterator[AttemptRecord]:
    """The attempts whose error has more to say than its line of the table, each text once: that of
    the last is shown before.
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
    """Who waits for a task."""
    rest = f" and {number - len(some)} more" if number > len(some) else ""
    return f"{number} for it: {', '.join(some)}{rest}"


def print_text(name: str, text: str) -> None:
    """A text of several lines under its name; nothing in it commands the terminal."""
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
    """The commands that decide about it."""
    click.echo("\ndecide:")
    for what, way in WAYS:
        click.echo(f"  {what}")
        click.echo(f"    {program()} dead {way.format(task=task)} --queue {queue}")


def document(found: Task) -> dict[str, object]:
    """The task for programs: as `rqueue task` has it, and what it has in common with others."""
    return {
        **view(found),
        "dead_lettered_at": died(found).isoformat(),
        "fingerprint": fingerprint_of(found).id,
        "pattern": fingerprint_of(found).pattern,
    }


def row_of(review: Review) -> dict[str, object]:
    """A review for programs."""
    return dict(fields_of(review))


def fields_of(review: Review) -> Iterator[tuple[str, object]]:
    """A review by name, what was not said left out."""
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
