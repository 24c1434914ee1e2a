"""Changes of tasks: `rqueue cancel, purge, priority, reschedule, run-now, pause, resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.main import nothing
from rqueue.cli.options import BEFORE, instant
from rqueue.cli.output.tables import Printer, counted, note
from rqueue.cli.session import all_of, confirm, on_queue
from rqueue.cli.tasks.inspect import STATUS
from rqueue.errors import TaskNotFound
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.core.tasks import Dependents
    from rqueue.operations import Swept
    from rqueue.queue import Queue

# A filter that matches every task.
ANY: dict[str, Any] = {"states": None, "type": None, "tag": None, "before": None}
PURGED = "purged"

task_filter = all_of(
    click.option(
        "--status", multiple=True, type=STATUS, help="Only tasks in this state. [repeatable]"
    ),
    click.option("--type", help="Only tasks of this type."),
    click.option("--tag", help="Only tasks with this tag."),
    click.option(
        "--before", type=click.DateTime(BEFORE), help="Only tasks submitted before this time."
    ),
    click.option("--dry-run", is_flag=True, help="Only print which tasks."),
)


def filter_in(given: dict[str, Any]) -> dict[str, Any]:
    """The given filter as arguments of the queue."""
    status = tuple(State(word) for word in given.pop("status"))
    states = {"states": status} if status else {}
    return states | {name: value for name, value in given.items() if value is not None}


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@task_filter
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
    wanted = filter_in(given)
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
        with out.measured("cancel") as progress:
            why = reason or "cancelled in bulk"
            from rqueue.operations import filter_of  # noqa: PLC0415 - imports most moves

            found = await queue._internals.operations.chosen(
                filter_of(**{**ANY, **wanted}), reason=why
            )
            swept = await queue._internals.operations.end(
                found, reason=why, progress=progress, dependents=dependents
            )
    print_swept(out, swept, dry_run=dry_run, done="cancelled")


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
@task_filter
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@on_queue
async def purge(queue: Queue, out: Printer, *, yes: bool, **given: Any) -> None:
    """Discard dead tasks, all or by a filter.

    With --status, live tasks in these states are cancelled. Without a filter, all dead tasks are
    discarded. Exit 1 if no task matched.
    """
    dry_run = bool(given.pop("dry_run"))
    wanted = filter_in(given)
    from rqueue.operations import filter_of  # noqa: PLC0415

    filter = filter_of(**{**ANY, "states": (State.DEAD_LETTERED,), **wanted})
    with out.working("search"):
        found = await queue._internals.operations.chosen(filter, reason=PURGED)
    swept = found.swept
    if swept.found and not dry_run:
        if not yes:
            confirm(counted(swept.found), "purge", PURGED)
        with out.measured("purge") as progress:
            # Only the counted tasks: those that die during the confirmation stay.
            swept = await queue._internals.operations.end(found, reason=PURGED, progress=progress)
    print_swept(out, swept, dry_run=dry_run, done=PURGED)


def print_swept(out: Printer, swept: Swept, *, dry_run: bool, done: str) -> None:
    """Prints which tasks were found and ended."""
    document = {"found": swept.found, "done": swept.done, "dry_run": dry_run, "tasks": swept.tasks}
    if dry_run:
        out.one(document, *map(str, swept.tasks))
        note(f"{counted(swept.found)} would be {done}")
    else:
        out.one(document, f"{swept.done} of {counted(swept.found)} {done}")
    if not swept.found:
        raise nothing()


@click.command()
@click.argument("task", metavar="ID")
@click.argument("number", metavar="N", type=float)
@click.option("--scale", help="Scale of N: native, 1-10 or 0-3. [default: the queue's]")
@on_queue
async def priority(
    queue: Queue, out: Printer, task: str, number: float, *, scale: str | None
) -> None:
    """Change the priority of a task; its age still counts."""
    await queue.set_priority(task, number, scale=scale)
    found = await queue.get(task)
    native = found.spec.priority
    out.one({"id": found.id, "priority": native}, f"{found.id} has priority {native:g}")


@click.command()
@click.argument("task", metavar="ID")
@click.option("--delay", type=float, metavar="SEC", help="Seconds from now.")
@click.option("--at", metavar="TIME", help="A time, such as 2030-01-31T12:00:00Z.")
@on_queue
async def reschedule(
    queue: Queue, out: Printer, task: str, *, delay: float | None, at: str | None
) -> None:
    """Change the time at which a waiting task becomes ready."""
    if (delay is None) == (at is None):
        raise click.UsageError("give either --delay or --at")
    await queue.reschedule(task, delay=delay, at=None if at is None else instant(at))
    found = await queue.get(task)
    until = found.available_at.isoformat() if found.available_at else ""
    out.one({"id": found.id, "available_at": until}, f"{found.id} waits until {until}")


@click.command("run-now")
@click.argument("task", metavar="ID")
@on_queue
async def run_now(queue: Queue, out: Printer, task: str) -> None:
    """Make a task that waits for its time ready now.

    Exit 1 if the task was not waiting for its time.
    """
    moved = await queue.run_now(task)
    found = await queue.get(task)
    out.one({"id": found.id, "state": found.state}, f"{found.id} {found.state}")
    if not moved:
        note(f"{found.id} was not waiting for its time")
        raise nothing()


gate_options = all_of(
    click.option("--type", metavar="TYPE", help="Only this type."),
    click.option("--lane", type=int, metavar="N", help="Only this lane."),
)


def gate_of(type: str | None, lane: int | None) -> str:
    """The selected part of the queue as text."""
    if type is not None and lane is not None:
        raise click.UsageError("give either --type or --lane")
    if type is not None:
        return f"type {type}"
    return "the queue" if lane is None else f"lane {lane}"


@click.command()
@gate_options
@on_queue
async def pause(queue: Queue, out: Printer, *, type: str | None, lane: int | None) -> None:
    """Pause the queue, a type or a lane.

    Its tasks are no longer claimed; running tasks continue.
    """
    what = gate_of(type, lane)
    await queue.pause(type=type, lane=lane)
    out.one({"paused": what}, f"{what} is paused")


@click.command()
@gate_options
@on_queue
async def resume(queue: Queue, out: Printer, *, type: str | None, lane: int | None) -> None:
    """Resume the queue, a type or a lane."""
    what = gate_of(type, lane)
    await queue.resume(type=type, lane=lane)
    out.one({"resumed": what}, f"{what} is resumed")
