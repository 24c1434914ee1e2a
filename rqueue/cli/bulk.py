"""`rqueue cancel` and `rqueue purge`: tasks ended by id or by a filter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.main import nothing
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import Command, on_queue
from rqueue.cli.tasks import STATUS
from rqueue.errors import TaskNotFound
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.core.tasks import Dependents
    from rqueue.operations import Swept
    from rqueue.queue import Queue

# A filter that matches every task.
ANY: dict[str, Any] = {"states": None, "type": None, "tag": None, "before": None}
PURGED = "purged"
BEFORE = ["%Y-%m-%dT%H:%M:%S%z"]


def filtering(command: Command) -> Command:
    """Adds the options that filter tasks."""
    options = (
        click.option("--dry-run", is_flag=True, help="Only print which tasks."),
        click.option(
            "--before", type=click.DateTime(BEFORE), help="Only tasks submitted before this time."
        ),
        click.option("--tag", help="Only tasks with this tag."),
        click.option("--type", help="Only tasks of this type."),
        click.option(
            "--status", multiple=True, type=STATUS, help="Only tasks in this state. [repeatable]"
        ),
    )
    for option in options:
        command = option(command)
    return command


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The given filter as arguments of the queue."""
    status = tuple(State(word) for word in given.pop("status"))
    states = {"states": status} if status else {}
    return states | {name: value for name, value in given.items() if value is not None}


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filtering
@click.option("--all", "everything", is_flag=True, help="All tasks that have not ended.")
@click.option("--reason", default="", help="The reason, stored with the task.")
@click.option(
    "--dependents",
    type=click.Choice(["cascade", "unblock"]),
    default="cascade",
    show_default=True,
    help="Also cancel their dependents, or unblock them.",
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

    Their dependents are cancelled too, or unblocked with --dependents unblock. Exit 1 if a named
    task had already ended, or if the filter matched no task.
    """
    dry_run = bool(given.pop("dry_run"))
    wanted = chosen(given)
    if bool(ids) + bool(wanted) + everything != 1:
        raise click.UsageError("give either ids, a filter or --all")
    if ids:
        if dry_run:
            raise click.UsageError("--dry-run needs a filter or --all")
        await cancel_named(queue, out, ids, reason=reason, dependents=dependents)
        return
    if dry_run:
        swept = await queue.purge(**{"states": None, **wanted}, dry_run=True)
    else:
        with out.measured("cancel") as heard:
            why = reason or "cancelled in bulk"
            from rqueue.operations import filter_of  # noqa: PLC0415 - imports most moves

            found = await queue._internals.operations.chosen(
                filter_of(**{**ANY, **wanted}), reason=why
            )
            swept = await queue._internals.operations.end(
                found, reason=why, progress=heard, dependents=dependents
            )
    told(out, swept, dry_run=dry_run, done="cancelled")


async def cancel_named(
    queue: Queue, out: Printer, ids: tuple[str, ...], *, reason: str, dependents: Dependents
) -> None:
    """Cancels the tasks one by one. A failure does not stop the others."""
    missed = False
    for task in ids:
        try:
            done = await queue.cancel(task, reason, dependents=dependents)
        except TaskNotFound:
            done = False
        missed |= not done
        word = "cancelled" if done else "not cancelled: not found, or it has ended"
        out.one({"id": task, "cancelled": done}, f"{task} {word}")
    if missed:
        raise nothing()


@click.command()
@filtering
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@on_queue
async def purge(queue: Queue, out: Printer, *, yes: bool, **given: Any) -> None:
    """Discard dead tasks, all or by a filter.

    With --status, live tasks in these states are cancelled. Without a filter, all dead tasks are
    discarded. Exit 1 if no task matched.
    """
    dry_run = bool(given.pop("dry_run"))
    wanted = chosen(given)
    from rqueue.operations import filter_of  # noqa: PLC0415

    filter = filter_of(**{**ANY, "states": (State.DEAD_LETTERED,), **wanted})
    with out.working("look"):
        found = await queue._internals.operations.chosen(filter, reason=PURGED)
    swept = found.swept
    if swept.found and not dry_run:
        if not yes:
            confirm(swept.found)
        with out.measured("purge") as heard:
            # Only the counted tasks: those that die during the question stay.
            swept = await queue._internals.operations.end(found, reason=PURGED, progress=heard)
    told(out, swept, dry_run=dry_run, done="purged")


def confirm(number: int) -> None:
    """Asks for confirmation. Without a terminal, raises UsageError: --yes is required."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{counted(number)} would be purged: add --yes, or --dry-run")
    click.confirm(f"Purge {counted(number)}?", abort=True, err=True)


def counted(number: int) -> str:
    """The number of tasks as text."""
    return f"{number} task{'' if number == 1 else 's'}"


def told(out: Printer, swept: Swept, *, dry_run: bool, done: str) -> None:
    """Prints which tasks were found and ended."""
    document = {"found": swept.found, "done": swept.done, "dry_run": dry_run, "tasks": swept.tasks}
    if dry_run:
        out.one(document, *map(str, swept.tasks))
        note(f"{counted(swept.found)} would be {done}")
    else:
        out.one(document, f"{swept.done} of {counted(swept.found)} {done}")
    if not swept.found:
        raise nothing()
