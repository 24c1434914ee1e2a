"""`rqueue dead retry, wait, escalate, cancel, delete`: decisions about dead tasks."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.cli.bulk import BEFORE, counted
from rqueue.cli.dead.edit import edit
from rqueue.cli.dead.reviewer import decision_in, saying
from rqueue.cli.main import NOTHING, STATE, nothing
from rqueue.cli.options import SECONDS
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import Command, on_queue
from rqueue.cli.tasks import instant
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask, RQueueError, StoreError, TaskNotFound

if TYPE_CHECKING:
    from rqueue.dead.admin import Resolved, Wanted
    from rqueue.dead.decide import Decision
    from rqueue.dead.reviews import Resolution
    from rqueue.queue import Queue

DONE: dict[Resolution, str] = {
    "retry": "retried",
    "wait": "rescheduled",
    "escalate": "escalated",
    "cancel": "cancelled",
    "delete": "deleted",
}
FILTER = ("type", "reason", "cluster", "agent", "tag", "before")


def filtering(command: Command) -> Command:
    """Adds the options that filter dead tasks."""
    options = (
        click.option(
            "--before", type=click.DateTime(BEFORE), help="Only tasks that died before this time."
        ),
        click.option("--tag", help="Only tasks with this tag."),
        click.option(
            "--agent",
            metavar="NAME",
            help="Only tasks for this agent, or last failed by this worker.",
        ),
        click.option("--cluster", metavar="FP", help="Only tasks of this cluster."),
        click.option(
            "--reason",
            metavar="WORD",
            help="Only tasks that died for this reason, such as timeout.",
        ),
        click.option("--type", help="Only tasks of this type."),
    )
    for option in options:
        command = option(command)
    return command


def choosing(command: Command) -> Command:
    """Adds the arguments that select tasks for a decision, and the options of the decision."""
    options = (
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "everything", is_flag=True, help="All dead tasks."),
        filtering,
        saying,
        click.argument("ids", metavar="[TASK]...", nargs=-1),
    )
    for option in options:
        command = option(command)
    return command


@click.command()
@choosing
@on_queue
async def retry(queue: Queue, out: Printer, **given: Any) -> None:
    """Retry dead tasks: attempts start again at one, the history is kept."""
    await decide(queue, out, "retry", given)


@click.command()
@choosing
@click.option("--until", metavar="TIME", help="A time, such as 2030-01-31T12:00:00Z.")
@click.option("--for", "seconds", type=SECONDS, metavar="SEC", help="Seconds from now.")
@on_queue
async def wait(
    queue: Queue, out: Printer, *, until: str | None, seconds: float | None, **given: Any
) -> None:
    """Retry dead tasks at a later time."""
    if (until is None) == (seconds is None):
        raise click.UsageError("give either --until or --for")
    if until is None:
        at = SYSTEM.now() + timedelta(seconds=seconds or 0)
    else:
        at = instant(until, "--until")
    await decide(queue, out, "wait", given, not_before=at)


@click.command()
@choosing
@on_queue
async def escalate(queue: Queue, out: Printer, **given: Any) -> None:
    """Escalate dead tasks: they stay dead and are marked for another reviewer."""
    await decide(queue, out, "escalate", given)


@click.command()
@choosing
@on_queue
async def cancel(queue: Queue, out: Printer, **given: Any) -> None:
    """Cancel dead tasks and the tasks that depend on them."""
    await decide(queue, out, "cancel", given)


@click.command()
@choosing
@on_queue
async def delete(queue: Queue, out: Printer, **given: Any) -> None:
    """Remove dead tasks that should not exist; the archive has them as cancelled."""
    await decide(queue, out, "delete", given)


async def decide(
    queue: Queue, out: Printer, resolution: Resolution, given: dict[str, Any], **more: Any
) -> None:
    """Applies a decision to the named tasks, or to all that match the filter.

    Exit 1 if no task was found, 3 if a task was refused; the others are still decided.
    """
    ids, dry_run = given["ids"], given["dry_run"]
    wanted = {name: given[name] for name in FILTER if given[name] is not None}
    if bool(ids) == bool(wanted or given["everything"]):
        raise click.UsageError("give ids, or a filter such as --cluster, or --all")
    decision = decision_in(queue, resolution, given, **more)
    if ids:
        failed = [await decide_one(queue, out, decision, id, dry_run=dry_run) for id in ids]
        if any(failed):
            raise click.exceptions.Exit(max(failed))
        return
    from rqueue.dead.admin import Resolved, dead_filter  # noqa: PLC0415 - as called

    operations = queue._internals.dead
    with out.working("look"):
        chosen = await operations.chosen(dead_filter(cast("Wanted", wanted)))
    found = Resolved([one.task for one in chosen])
    if chosen and not dry_run:
        if not given["yes"]:
            confirm(resolution, len(chosen))
        with out.measured(resolution) as heard:
            # Only the counted tasks: others may have died since.
            found = await operations.decide_many(chosen, decision, progress=heard)
    tell(out, resolution, found, dry_run=dry_run)


async def decide_one(
    queue: Queue, out: Printer, decision: Decision, id: str, *, dry_run: bool
) -> int:
    """Applies a decision to one task and returns the exit code for it."""
    operations, resolution = queue._internals.dead, decision.resolution
    try:
        found = await (
            operations.check(id, decision) if dry_run else operations.decide(id, decision)
        )
    except (StoreError, InvalidTask):
        raise
    except RQueueError as error:
        note(f"{id} is not {DONE[resolution]}: {error}")
        return NOTHING if isinstance(error, TaskNotFound) else STATE
    document = {"id": found.id, "resolution": resolution, "state": found.state, "dry_run": dry_run}
    word = "would be " if dry_run else ""
    out.one(document, f"{found.id} {word}{DONE[resolution]}, is {found.state}")
    return 0


def confirm(resolution: Resolution, number: int) -> None:
    """Asks for confirmation. Without a terminal, raises UsageError: --yes is required."""
    if not sys.stdin.isatty():
        what = f"{counted(number)} would be {DONE[resolution]}"
        raise click.UsageError(f"{what}: add --yes, or --dry-run")
    click.confirm(f"{resolution.capitalize()} {counted(number)}?", abort=True, err=True)


def tell(out: Printer, resolution: Resolution, found: Resolved, *, dry_run: bool) -> None:
    """Prints which tasks were found, decided and refused, and raises the exit."""
    document = {
        "resolution": resolution,
        "found": len(found.tasks),
        "done": len(found.done),
        "refused": found.refused,
        "dry_run": dry_run,
        "tasks": found.tasks,
    }
    if dry_run:
        out.one(document, *map(str, found.tasks))
        note(f"{counted(len(found.tasks))} would be {DONE[resolution]}")
    else:
        out.one(document, f"{len(found.done)} of {counted(len(found.tasks))} {DONE[resolution]}")
    for task, why in found.refused.items():
        note(f"{task} is not {DONE[resolution]}: {why}")
    if not found.tasks:
        raise nothing()
    if found.refused:
        raise click.exceptions.Exit(STATE)


COMMANDS = (retry, edit, wait, escalate, cancel, delete)
