"""`rqueue archive search, spend, events`: queries of the archive, and their filters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.archive.filters import BYS, WORDS
from rqueue.cli.main import nothing
from rqueue.cli.options import row_limit, when
from rqueue.cli.output.tables import Columns, Printer, clock, dollars, gist, note_more
from rqueue.cli.session import all_of, on_queue
from rqueue.task.forms import view

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.admin import SearchOptions
    from rqueue.archive.filters import By
    from rqueue.archive.reports import AgentEvent, Spent
    from rqueue.queue import Queue
    from rqueue.task.task import Task

NOTE_WIDTH = 60

TASKS: Columns[Task] = {
    "ID": lambda task: str(task.id),
    "TYPE": lambda task: task.type,
    "STATE": lambda task: task.state,
    "ENDED": lambda task: clock(task.updated_at) if task.updated_at else "",
    "FAILED": lambda task: f"{task.attempts}/{task.spec.max_attempts}",
    "COST": lambda task: dollars(task.cost_usd) if task.cost_usd else "",
    "WHY": lambda task: gist(task.cancel_reason or task.last_error, NOTE_WIDTH),
}
EVENTS: Columns[AgentEvent] = {
    "AT": lambda event: clock(event.at),
    "AGENT": lambda event: event.agent,
    "EVENT": lambda event: event.event,
    "TYPE": lambda event: event.type,
    "TASK": lambda event: str(event.task_id),
    "COST": lambda event: dollars(float(event.cost_usd)) if event.cost_usd else "",
    "MODEL": lambda event: event.model or "",
    "ERROR": lambda event: gist(event.error, NOTE_WIDTH),
}

task_filter = all_of(
    click.option(
        "--status",
        multiple=True,
        type=click.Choice(list(WORDS), case_sensitive=False),
        metavar="WORD",
        help="Only tasks with this status, in the words of any document form. [repeatable]",
    ),
    click.option("--type", help="Only tasks of this type."),
    click.option("--tag", help="Only tasks with this tag."),
    click.option("--since", metavar="WHEN", callback=when, help="Ended at this time or later."),
    click.option("--until", metavar="WHEN", callback=when, help="Ended before this time."),
    click.option("--text", help="With this text in the error or the payload."),
    click.option("--agent", help="For this agent, or run by this worker."),
    click.option("--worker", help="Run by this worker."),
    click.option("--dag", metavar="ID", help="Only tasks of this DAG."),
    click.option("--all-lives", is_flag=True, help="All lives of a task, not only the last."),
)


def filter_in(given: dict[str, Any]) -> SearchOptions:
    """The filter options as arguments of the archive; without --status, any status matches."""
    found: Any = {**given, "status": given["status"] or None}
    return cast("SearchOptions", found)


@click.command()
@task_filter
@row_limit
@on_queue
async def search(queue: Queue, out: Printer, *, limit: int, **given: Any) -> None:
    """Find ended tasks, the most recent first.

    --text ignores case and has no wildcards. Exit 1 if no task matches.
    """
    found: list[Task] = []
    number = 0
    async for task in queue.archive.search(limit=limit + 1, **filter_in(given)):
        number += 1
        if number > limit:
            break
        if out.as_json:
            out.json(view(task))
        else:
            found.append(task)
    if not out.as_json:
        out.rows(found, TASKS, view)
    if number > limit:
        note_more(limit)
    if not number:
        raise nothing()


def groups_in(ctx: click.Context, param: click.Parameter, given: str) -> tuple[By, ...]:
    """Parses the columns to group by, separated by commas. Raises BadParameter."""
    known: dict[str, By] = {str(by): by for by in BYS}
    words = [word.strip() for word in given.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(BYS)}")
    return tuple(known[word] for word in words)


@click.command()
@click.option("--by", metavar="WORDS", callback=groups_in, default="type", show_default=True,
              help=f"Group by some of {', '.join(BYS)}.")  # fmt: skip
@click.option("--since", metavar="WHEN", callback=when, help="Spent at this time or later.")
@click.option("--until", metavar="WHEN", callback=when, help="Spent before this time.")
@click.option("--type", help="Only tasks of this type.")
@row_limit
@on_queue
async def spend(
    queue: Queue, out: Printer, *, by: tuple[By, ...], limit: int, **wanted: Any
) -> None:
    """Show the cost of ended tasks, in groups.

    Days are in UTC. Costs without a model have the model `-`.
    """
    found = await queue.archive.spend(by, limit=limit + 1, **wanted)
    columns: Columns[Spent] = {
        **{word.upper(): partial(group_of, word) for word in by},
        "COST": lambda spent: dollars(float(spent.cost_usd)),
        "TOKENS": lambda spent: str(spent.tokens),
        "TASKS": lambda spent: str(spent.tasks),
    }
    kept = {*by, "cost_usd", "tokens", "tasks"}

    def document(spent: Spent) -> object:
        return {**spent.model_dump(mode="json", include=kept), "cost_usd": float(spent.cost_usd)}

    out.rows(found[:limit], columns, document)
    if len(found) > limit:
        note_more(limit)
    if not found:
        raise nothing()


def group_of(word: str, spent: Spent) -> str:
    """The value of a group's column."""
    return getattr(spent, word) or "-"


@click.command()
@click.option("--agent", help="Only events of this agent.")
@click.option("--task", metavar="ID", help="Only events of this task.")
@click.option("--since", metavar="WHEN", callback=when, help="At this time or later.")
@click.option("--until", metavar="WHEN", callback=when, help="Before this time.")
@row_limit
@on_queue
async def events(
    queue: Queue, out: Printer, *, limit: int, **wanted: datetime | str | None
) -> None:
    """Show the events of agents, the most recent first.

    Events are recorded if the setting agent_events is on. Exit 1 if there are none.
    """
    given: Any = wanted
    found = queue.archive.events(limit=limit + 1, **given)
    if not await out.first_rows(found, limit, EVENTS, lambda one: one.model_dump(mode="json")):
        raise nothing()
