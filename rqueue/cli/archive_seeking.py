"""`rqueue archive search`, and the options by which ended tasks are sought."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rqueue.archive.wanted import WORDS
from rqueue.cli.dag_picture import dollars
from rqueue.cli.exits import nothing
from rqueue.cli.moments import when
from rqueue.cli.output import Columns, Printer, gist, note
from rqueue.cli.session import on_queue
from rqueue.cli.timeline import clock
from rqueue.model.forms import view

if TYPE_CHECKING:
    from rqueue.client.archivedesk import Sought
    from rqueue.model.task import Task
    from rqueue.queue import Queue

LIMIT = 100
NOTE_WIDTH = 60
C = TypeVar("C", bound=Callable[..., Any])


def finished(task: Task) -> str:
    """When it ended."""
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
    """Adds the options that say which tasks are meant."""
    statuses = click.Choice(list(WORDS), case_sensitive=False)
    options = (
        click.option("--status", multiple=True, type=statuses, metavar="WORD",
                     help="How it ended, in any document's words. [repeatable]"),
        click.option("--type", help="Of this type."),
        click.option("--tag", help="With this tag."),
        click.option("--since", metavar="WHEN", callback=when, help="Ended then or later."),
        click.option("--until", metavar="WHEN", callback=when, help="Ended before then."),
        click.option("--text", help="With this in its error or its payload."),
        click.option("--agent", help="For this agent, or done by this worker."),
        click.option("--worker", help="Done by this worker."),
        click.option("--dag", metavar="ID", help="Of this DAG."),
        click.option("--all-lives", is_flag=True, help="Each life of a task that was revived."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def sought_in(given: dict[str, Any]) -> Sought:
    """The options as the archive is asked; no word for a status means any."""
    found: Any = {**given, "status": given["status"] or None}
    return cast("Sought", found)


@click.command()
@seeking
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@on_queue
async def search(queue: Queue, out: Printer, *, limit: int, **given: Any) -> None:
    """Find tasks that have ended, the last first.

    Exit 1 when there is none. A text is found whatever its case, and as it stands.
    """
    found: list[Task] = []
    number = 0
    async for task in queue.archived.find(limit=limit + 1, **sought_in(given)):
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
        note(f"there are more than {limit}: narrow the search, or raise --limit")
    if not number:
        raise nothing()
