"""`rqueue dead retry, wait, escalate, cancel, delete`: decisions, about one task or about many."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.cli.changing import instant
from rqueue.cli.dead_edit import edit
from rqueue.cli.dead_saying import decision_in, saying
from rqueue.cli.exits import NOTHING, STATE, nothing
from rqueue.cli.output import Printer, note
from rqueue.cli.seconds import SECONDS
from rqueue.cli.session import Command, on_queue
from rqueue.cli.sweeping import BEFORE, counted
from rqueue.client.reviewing import Resolved
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask, RQueueError, StoreError, TaskNotFound
from rqueue.reviewing import dead_filter

if TYPE_CHECKING:
    from rqueue.client.deciding import Decision
    from rqueue.model.review import Resolution
    from rqueue.queue import Queue
    from rqueue.reviewing import Wanted

DONE: dict[Resolution, str] = {
    "retry": "retried",
    "wait": "told to wait",
    "escalate": "escalated",
    "cancel": "cancelled",
    "delete": "deleted",
}
FILTER = ("type", "reason", "cluster", "agent", "tag", "before")


def filtering(command: Command) -> Command:
    """Adds the options that say which dead tasks are meant."""
    options = (
        click.option("--before", type=click.DateTime(BEFORE), help="Died before this instant."),
        click.option("--tag", help="With this tag."),
        click.option(
            "--agent", metavar="NAME", help="For this agent, or failed last by this worker."
        ),
        click.option("--cluster", metavar="FP", help="Of this cluster."),
        click.option("--reason", metavar="WORD", help="For this reason, such as timeout."),
        click.option("--type", help="Of this type."),
    )
    for option in options:
        command = option(command)
    return command


def choosing(command: Command) -> Command:
    """Adds what says which tasks a decision is about, and what is said of it."""
    options = (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--all", "everything", is_flag=True, help="All dead tasks that fit."),
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
    """Give dead tasks a new life: attempts begin again, the history stays."""
    await decide(queue, out, "retry", given)


@click.command()
@choosing
@click.option("--until", metavar="TIME", help="An instant, such as 2030-01-31T12:00:00Z.")
@click.option("--for", "seconds", type=SECONDS, metavar="SEC", help="So many seconds from now.")
@on_queue
async def wait(
    queue: Queue, out: Printer, *, until: str | None, seconds: float | None, **given: Any
) -> None:
    """Give dead tasks a new life that begins later, when what they need is there again."""
    if (until is None) == (seconds is None):
        raise click.UsageError("give --until or --for, one of them")
    if until is None:
        at = SYSTEM.now() + timedelta(seconds=seconds or 0)
    else:
        at = instant(until, "--until")
    await decide(queue, out, "wait", given, not_before=at)


@click.command()
@choosing
@on_queue
async def escalate(queue: Queue, out: Printer, **given: Any) -> None:
    """Hand dead tasks on to whoever may decide: they stay dead, and are marked."""
    await decide(queue, out, "escalate", given)


@click.command()
@choosing
@on_queue
async def cancel(queue: Queue, out: Printer, **given: Any) -> None:
    """Give dead tasks up; what waits for them is cancelled."""
    await decide(queue, out, "cancel", given)


@click.command()
@choosing
@on_queue
async def delete(queue: Queue, out: Printer, **given: Any) -> None:
    """Take dead tasks that should never have been out of sight; the archive keeps their rows."""
    await decide(queue, out, "delete", given)


async def decide(
    queue: Queue, out: Printer, resolution: Resolution, given: dict[str, Any], **more: Any
) -> None:
    """Carries a decision out, about the tasks that are named or all that fit a filter.

    Exit 1 where nothing was found, 3 where something could not be done; the rest is.
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
    desk = queue.review_desk
    with out.working("look"):
        chosen = await desk.chosen(dead_filter(cast("Wanted", wanted)))
    found = Resolved([one.task for one in chosen])
    if chosen and not dry_run:
        if not given["yes"]:
            confirm(resolution, len(chosen))
        with out.measured(resolution) as heard:
            # Those that were counted: others may have died since.
            found = await desk.resolve_many(chosen, decision, told=heard)
    tell(out, resolution, found, dry_run=dry_run)


async def decide_one(
    queue: Queue, out: Printer, decision: Decision, id: str, *, dry_run: bool
) -> int:
    """Carries a decision out about one task; the exit code that it would end with alone."""
    desk, resolution = queue.review_desk, decision.resolution
    try:
        found = await (desk.check(id, decision) if dry_run else desk.resolve(id, decision))
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
    """Asks the person in front; where there is none, --yes is needed."""
    if not sys.stdin.isatty():
        what = f"{counted(number)} would be {DONE[resolution]}"
        raise click.UsageError(f"{what}: add --yes, or --dry-run")
    click.confirm(f"{resolution.capitalize()} {counted(number)}?", abort=True, err=True)


def tell(out: Printer, resolution: Resolution, found: Resolved, *, dry_run: bool) -> None:
    """Says what was found and done."""
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
