"""`rqueue explain`: what a task's effective priority is made of, and who comes before it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, clean, span
from rqueue.cli.session import on_queue
from rqueue.policy.fleet import asks_for

if TYPE_CHECKING:
    from rqueue.client.explaining import Explanation
    from rqueue.policy.explaining import Terms
    from rqueue.queue import Queue


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the sum."""

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
    """Show what makes a task as urgent as it is.

    The terms of its effective priority now, lower first, as a claim compares it; its lane, its
    place there, and how many tasks of all lanes come before it.
    """
    found = await queue.explain(task)
    if out.as_json:
        out.json(document(found))
        return
    click.echo(f"{found.task} is {found.state}\n")
    out.rows(rows(found), ROWS, asdict)
    click.echo(f"\n{clean(place(found))}")


def rows(found: Explanation) -> list[Row]:
    """The sum, one term a line."""
    terms = found.terms
    lines = [Row("base", terms.base), Row("age", -terms.age_boost, aged(terms))]
    if terms.slack_sec is not None:
        lines.append(Row("deadline", -terms.deadline_boost, slack(terms)))
    if terms.path_boost:
        lines.append(Row("critical path", -terms.path_boost, "most of its DAG waits for it"))
    return [*lines, Row(f"effective, {found.tier.value}", terms.effective)]


def aged(terms: Terms) -> str:
    """How its age makes it more urgent."""
    return f"{span(terms.age_sec)} at {terms.rate:g} a minute"


def slack(terms: Terms) -> str:
    """How much time there is until the deadline, and what that will be written as."""
    left = terms.slack_sec or 0.0
    when = f"{span(left)} left" if left > 0 else f"{span(-left)} late"
    return f"{when}; {terms.deadline_boost_now:.2f} by now, written by whole points"


def place(found: Explanation) -> str:
    """Where it stands, in words."""
    alone = ", one at a time" if found.lane.alone else ""
    where = f"lane {found.lane_number} ({asks_for(found.lane)}{alone})"
    if found.position is None:
        return f"in the hands of {found.worker or 'a worker'}, from {where}"
    stands = "stands" if found.stands else f"is {found.state} and not in its lane; it would stand"
    before = f"{found.ahead} tasks of all lanes come before it"
    return f"{stands} at place {found.position} of {where}; {before}"


def document(found: Explanation) -> dict[str, object]:
    """The explanation for programs."""
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
