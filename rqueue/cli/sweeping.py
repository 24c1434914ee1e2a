"""`rqueue cancel` and `rqueue purge`: the end of many tasks at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.exits import nothing
from rqueue.cli.looking import STATUS
from rqueue.cli.output import Printer, note
from rqueue.cli.session import Command, on_queue
from rqueue.client.desk import filter_of
from rqueue.errors import TaskNotFound
from rqueue.model.state import State

if TYPE_CHECKING:
    from rqueue.client.ending import Swept
    from rqueue.queue import Queue
    from rqueue.store.tasks import Dependents

# A filter that says nothing.
ANY: dict[str, Any] = {"states": None, "type": None, "tag": None, "before": None}
PURGED = "purged"
BEFORE = ["%Y-%m-%dT%H:%M:%S%z"]


def filtering(command: Command) -> Command:
    """Adds the options that say which tasks are meant."""
    options = (
        click.option("--dry-run", is_flag=True, help="Only say which."),
        click.option(
            "--before", type=click.DateTime(BEFORE), help="Submitted earlier than this instant."
        ),
        click.option("--tag", help="With this tag."),
        click.option("--type", help="Of this type."),
        click.option("--status", multiple=True, type=STATUS, help="In this state. [repeatable]"),
    )
    for option in options:
        command = option(command)
    return command


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The filter that was given, in the queue's own words."""
    status = tuple(State(word) for word in given.pop("status"))
    states = {"states": status} if status else {}
    return states | {name: value for name, value in given.items() if value is not None}


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filtering
@click.option("--all", "everything", is_flag=True, help="Every task that has not ended.")
@click.option("--reason", default="", help="Why; it is kept with the task.")
@click.option(
    "--dependents",
    type=click.Choice(["cascade", "unblock"]),
    default="cascade",
    show_default=True,
    help="Cancel what depends on them as well, or let it run.",
)
@on_queue
async def cancel(
    queue: Queue,
    out: Printer,
    ids: tuple[str, ...],
    *,
    reason: str,
    dependents: Dependents,
    everything: bool,
    **given: Any,
) -> None:
    """Cancel tasks by id or by a filter.

    What depends on them is cancelled as well, unless it shall be unblocked. Exit 1 when one
    that was named had ended already, or a filter found nothing.
    """
    dry_run = bool(given.pop("dry_run"))
    wanted = chosen(given)
    if bool(ids) + bool(wanted) + everything != 1:
        raise click.UsageError("give ids, a filter, or --all, one of them")
    if ids:
        if dry_run:
            raise click.UsageError("--dry-run is said of a filter")
        await cancel_named(queue, out, ids, reason=reason, dependents=dependents)
        return
    if dry_run:
        swept = await queue.cancel_many(dry_run=True, **wanted)
    else:
        with out.measured("cancel") as heard:
            why = reason or "cancelled in bulk"
            found = await queue.desk.chosen(filter_of(**{**ANY, **wanted}), reason=why)
            swept = await queue.desk.end(found, reason=why, told=heard, dependents=dependents)
    told(out, swept, dry_run=dry_run, done="cancelled")


async def cancel_named(
    queue: Queue, out: Printer, ids: tuple[str, ...], *, reason: str, dependents: Dependents
) -> None:
    """Cancels one after the other; all are tried."""
    missed = False
    for task in ids:
        try:
            done = await queue.cancel(task, reason, dependents=dependents)
        except TaskNotFound:
            done = False
        missed |= not done
        word = "cancelled" if done else "not cancelled: it is not here, or has ended"
        out.one({"id": task, "cancelled": done}, f"{task} {word}")
    if missed:
        raise nothing()


@click.command()
@filtering
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_queue
async def purge(queue: Queue, out: Printer, *, yes: bool, **given: Any) -> None:
    """Discard dead tasks, all or by a filter.

    Live tasks of the states named by --status are cancelled. Without a filter it means
    all that are dead. Exit 1 when there was nothing.
    """
    dry_run = bool(given.pop("dry_run"))
    wanted = chosen(given)
    filter = filter_of(**{**ANY, "states": (State.DEAD_LETTERED,), **wanted})
    with out.working("look"):
        found = await queue.desk.chosen(filter, reason=PURGED)
    swept = found.swept
    if swept.found and not dry_run:
        if not yes:
            confirm(swept.found)
        with out.measured("purge") as heard:
            # Just those that were counted: what dies while the question is open stays.
            swept = await queue.desk.end(found, reason=PURGED, told=heard)
    told(out, swept, dry_run=dry_run, done="purged")


def confirm(number: int) -> None:
    """Asks the person in front; where there is none, --yes is needed."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{counted(number)} would be purged: add --yes, or --dry-run")
    click.confirm(f"Purge {counted(number)}?", abort=True, err=True)


def counted(number: int) -> str:
    """So many tasks."""
    return f"{number} task{'' if number == 1 else 's'}"


def told(out: Printer, swept: Swept, *, dry_run: bool, done: str) -> None:
    """Says what was found and done."""
    document = {"found": swept.found, "done": swept.done, "dry_run": dry_run, "tasks": swept.tasks}
    if dry_run:
        out.one(document, *map(str, swept.tasks))
        note(f"{counted(swept.found)} would be {done}")
    else:
        out.one(document, f"{swept.done} of {counted(swept.found)} {done}")
    if not swept.found:
        raise nothing()
