"""`rqueue archive search`, and the options that filter ended tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rqueue.archive.words import WORDS
from rqueue.cli.dag.picture import dollars
from rqueue.cli.main import nothing
from rqueue.cli.options import when
from rqueue.cli.output.tables import Columns, Printer, gist, note
from rqueue.cli.output.timeline import clock
from rqueue.cli.session import on_queue
from rqueue.task.forms import view

if TYPE_CHECKING:
    from rqueue.archive.admin import Sought
    from rqueue.queue import Queue
    from rqueue.task.task import Task

LIMIT = 100
NOTE_WIDTH = 60
C = TypeVar("C", bound=Callable[..., Any])


def finished(task: Task) -> str:
    """The time at which the task ended."""
    return clock(task.updated_at) if task.updated_at else ""


COLUMNS: Columns[Task] = {
    "ID": lambda task: str(task.id),
    "TYPE": lambda task: task.type,
    "STATE": lambda task: task.state,
    "ENDED": finished,
    "FAILED": lambda task: f"{task.attempts}/{task.spec.max_attempts}",
    "COST": lambda task: dollars(task.cost_usd) if task.cost_usd else "",
    "WHY": lambda task: gist(task.cancel_reason or task.last_error, NOTE_WIDTH),
}


def seeking(command: C) -> C:
    """Adds the options that filter ended tasks."""
    statuses = click.Choice(list(WORDS), case_sensitive=False)
    options = (
        click.option("--status", multiple=True, type=statuses, metavar="WORD",
                     help="Only tasks with this status, in any document's words. [repeatable]"),
        click.option("--type", help="Only tasks of this type."),
        click.option("--tag", help="Only tasks with this tag."),
        click.option("--since", metavar="WHEN", callback=when, help="Ended at this time or later."),
        click.option("--until", metavar="WHEN", callback=when, help="Ended before this time."),
        click.option("--text", help="With this text in the error or the payload."),
        click.option("--agent", help="For this agent, or run by this worker."),
        click.option("--worker", help="Run by this worker."),
        click.option("--dag", metavar="ID", help="Only tasks of this DAG."),
        click.option("--all-lives", is_flag=True, help="All lives of a task, not only the last."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def sought_in(given: dict[str, Any]) -> Sought:
    """The options as arguments of the archive; without --status, any status matches."""
    found: Any = {**given, "status": given["status"] or None}
    return cast("Sought", found)


@click.command()
@seeking
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LIMIT,
    show_default=True,
    help="Maximum number of rows.",
)
@on_queue
async def search(queue: Queue, out: Printer, *, limit: int, **given: Any) -> None:
    """Find ended tasks, the most recent first.

    --text ignores case and has no wildcards. Exit 1 if no task matches.
    """
    found: list[Task] = []
    number = 0
    async for task in queue.archive.search(limit=limit + 1, **sought_in(given)):
        number += 1
        if number > limit:
            break
        if out.as_json:
            out.json(view(task))
        else:
            found.append(task)
    if not out.as_json:
        out.rows(found, COLUMNS, view)
    if number > limit:
        note(f"there are more than {limit}: narrow the search or raise --limit")
    if not number:
        raise nothing()
