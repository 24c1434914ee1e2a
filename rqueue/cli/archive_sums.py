"""`rqueue archive spend` and `rqueue archive events`: what it cost, and who did what."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rqueue.archive.spending import BYS
from rqueue.cli.dag_picture import dollars
from rqueue.cli.exits import nothing
from rqueue.cli.moments import when
from rqueue.cli.output import Columns, Printer, gist, note
from rqueue.cli.session import on_queue
from rqueue.cli.timeline import clock

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.events import AgentEvent
    from rqueue.archive.spending import By, Spent
    from rqueue.queue import Queue

LIMIT = 100
NOTE_WIDTH = 60


def division(ctx: click.Context, param: click.Parameter, given: str) -> tuple[By, ...]:
    """Some of the words by which sums are divided, with commas between; or wrong usage."""
    known: dict[str, By] = {str(by): by for by in BYS}
    words = [word.strip() for word in given.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(BYS)}")
    return tuple(known[word] for word in words)


@click.command()
@click.option("--by", metavar="WORDS", callback=division, default="type", show_default=True,
              help=f"Divided by some of {', '.join(BYS)}.")  # fmt: skip
@click.option("--since", metavar="WHEN", callback=when, help="Spent then or later.")
@click.option("--until", metavar="WHEN", callback=when, help="Spent before then.")
@click.option("--type", help="For tasks of this type.")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@on_queue
async def spend(
    queue: Queue,
    out: Printer,
    *,
    by: tuple[By, ...],
    limit: int,
    **wanted: Any,
) -> None:
    """Show what ended tasks have cost.

    Days are those of UTC. What no model was named for stands under none.
    """
    found = await queue.archived.spend(by, limit=limit + 1, **wanted)
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
        note(f"there are more than {limit}: narrow the search, or raise --limit")
    if not found:
        raise nothing()


def named(word: str, spent: Spent) -> str:
    """What a sum is of, by one of the words that divide it."""
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
@click.option("--agent", help="Of this agent.")
@click.option("--task", metavar="ID", help="About this task.")
@click.option("--since", metavar="WHEN", callback=when, help="Then or later.")
@click.option("--until", metavar="WHEN", callback=when, help="Before then.")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@on_queue
async def events(
    queue: Queue, out: Printer, *, limit: int, **wanted: datetime | str | None
) -> None:
    """Show what agents did, the last first.

    They are written where the setting agent_events is on. Exit 1 when there is none.
    """
    found: list[AgentEvent] = []
    sought: Any = wanted
    async for event in queue.archived.events(limit=limit + 1, **sought):
        found.append(event)
    out.rows(found[:limit], COLUMNS, lambda event: event.model_dump(mode="json"))
    if len(found) > limit:
        note(f"there are more than {limit}: narrow the search, or raise --limit")
    if not found:
        raise nothing()
