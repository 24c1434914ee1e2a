"""`rqueue explain` and `rqueue why`: the priority of a task, and what blocks it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Columns, Printer, clean, span
from rqueue.cli.session import on_queue
from rqueue.task.state import LEASED

if TYPE_CHECKING:
    from rqueue.explain.explain import Explanation, Terms
    from rqueue.explain.why import Why
    from rqueue.queue import Queue


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
