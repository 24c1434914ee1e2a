"""`rqueue archive spend` and `rqueue archive events`: costs, and the events of agents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rqueue.archive.words import BYS
from rqueue.cli.dag.picture import dollars
from rqueue.cli.main import nothing
from rqueue.cli.options import when
from rqueue.cli.output.tables import Columns, Printer, gist, note
from rqueue.cli.output.timeline import clock
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.reports import AgentEvent, Spent
    from rqueue.archive.words import By
    from rqueue.queue import Queue

LIMIT = 100
NOTE_WIDTH = 60


def division(ctx: click.Context, param: click.Parameter, given: str) -> tuple[By, ...]:
    """Parses the columns to group by, separated by commas. Raises BadParameter."""
    known: dict[str, By] = {str(by): by for by in BYS}
    words = [word.strip() for word in given.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(BYS)}")
    return tuple(known[word] for word in words)


@click.command()
@click.option("--by", metavar="WORDS", callback=division, default="type", show_default=True,
              help=f"Group by some of {', '.join(BYS)}.")  # fmt: skip
@click.option("--since", metavar="WHEN", callback=when, help="Spent at this time or later.")
@click.option("--until", metavar="WHEN", callback=when, help="Spent before this time.")
@click.option("--type", help="Only tasks of this type.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LIMIT,
    show_default=True,
    help="Maximum number of rows.",
)
@on_queue
async def spend(
    queue: Queue,
    out: Printer,
    *,
    by: tuple[By, ...],
    limit: int,
    **wanted: Any,
) -> None:
    """Show the cost of ended tasks, in groups.

    Days are in UTC. Costs without a model have the model `-`.
    """
    found = await queue.archive.spend(by, limit=limit + 1, **wanted)
    columns: Columns[Spent] = {
        **{word.upper(): partial(named, word) for word in by},
        "COST": lambda spent: dollars(float(spent.cost_usd)),
        "TOKENS": lambda spent: str(spent.tokens),
        "TASKS": lambda spent: str(spent.tasks),
    }
    kept = {*by, "cost_usd", "tokens", "tasks"}

    def document(spent: Spent) -> object:
        return {**spent.model_dump(mode="json", include=kept), "cost_usd": float(spent.cost_usd)}

    out.rows(found[:limit], columns, document)
    if len(found) > limit:
        note(f"there are more than {limit}: narrow the search or raise --limit")
    if not found:
        raise nothing()


def named(word: str, spent: Spent) -> str:
    """The value of a group's column."""
    return getattr(spent, word) or "-"


COLUMNS: Columns[AgentEvent] = {
    "AT": lambda event: clock(event.at),
    "AGENT": lambda event: event.agent,
    "EVENT": lambda event: event.event,
    "TYPE": lambda event: event.type,
    "TASK": lambda event: str(event.task_id),
    "COST": lambda event: dollars(float(event.cost_usd)) if event.cost_usd else "",
    "MODEL": lambda event: event.model or "",
    "ERROR": lambda event: gist(event.error, NOTE_WIDTH),
}


@click.command()
@click.option("--agent", help="Only events of this agent.")
@click.option("--task", metavar="ID", help="Only events of this task.")
@click.option("--since", metavar="WHEN", callback=when, help="At this time or later.")
@click.option("--until", metavar="WHEN", callback=when, help="Before this time.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LIMIT,
    show_default=True,
    help="Maximum number of rows.",
)
@on_queue
async def events(
    queue: Queue, out: Printer, *, limit: int, **wanted: datetime | str | None
) -> None:
    """Show the events of agents, the most recent first.

    Events are recorded if the setting agent_events is on. Exit 1 if there are none.
    """
    found: list[AgentEvent] = []
    sought: Any = wanted
    async for event in queue.archive.events(limit=limit + 1, **sought):
        found.append(event)
    out.rows(found[:limit], COLUMNS, lambda event: event.model_dump(mode="json"))
    if len(found) > limit:
        note(f"there are more than {limit}: narrow the search or raise --limit")
    if not found:
        raise nothing()
