"""Decisions about dead tasks: `rqueue dead retry, edit, wait, escalate, cancel, delete`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.cli.main import NOTHING, STATE, nothing
from rqueue.cli.options import BEFORE, SECONDS, from_argument, instant
from rqueue.cli.output.tables import Printer, counted, note
from rqueue.cli.session import all_of, confirm, on_queue
from rqueue.clock import SYSTEM
from rqueue.dead.reviews import CAUSES
from rqueue.errors import InvalidTask, RQueueError, StoreError, TaskNotFound, WrongState
from rqueue.task.codec import MAX_DEPTH, decode
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.dead.admin import Resolved, Wanted
    from rqueue.dead.decide import Decision, DecisionOptions
    from rqueue.dead.reviews import Resolution
    from rqueue.queue import Queue
    from rqueue.task.task import Task

DONE: dict[Resolution, str] = {
    "retry": "retried",
    "wait": "rescheduled",
    "escalate": "escalated",
    "cancel": "cancelled",
    "delete": "deleted",
}
FILTER = ("type", "reason", "cluster", "agent", "tag", "before")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

dead_filter = all_of(
    click.option("--type", help="Only tasks of this type."),
    click.option(
        "--reason", metavar="WORD", help="Only tasks that died for this reason, such as timeout."
    ),
    click.option("--cluster", metavar="FP", help="Only tasks of this cluster."),
    click.option(
        "--agent", metavar="NAME", help="Only tasks for this agent, or last failed by this worker."
    ),
    click.option("--tag", help="Only tasks with this tag."),
    click.option(
        "--before", type=click.DateTime(BEFORE), help="Only tasks that died before this time."
    ),
)
# Without --by and the setting `principal`, the author is the user of the operating system.
decision_options = all_of(
    click.option(
        "--cause", metavar="WORD", default="", help=f"Why it died: {', '.join(CAUSES)}, ..."
    ),
    click.option("--note", metavar="TEXT", default="", help="A note for other reviewers."),
    click.option(
        "--by",
        metavar="WHO",
        help="Author, kind:name. [default: setting `principal`, else human:<user>]",
    ),
    click.option("--dry-run", is_flag=True, help="Only print what would be done."),
)
# The tasks that a decision is about, and the decision.
decided_tasks = all_of(
    click.argument("ids", metavar="[TASK]...", nargs=-1),
    decision_options,
    dead_filter,
    click.option("--all", "everything", is_flag=True, help="All dead tasks."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
)


@click.command()
@decided_tasks
@on_queue
async def retry(queue: Queue, out: Printer, **given: Any) -> None:
    """Retry dead tasks: attempts start again at 0, the history is kept."""
    await decide(queue, out, "retry", given)


@click.command()
@decided_tasks
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
@decided_tasks
@on_queue
async def escalate(queue: Queue, out: Printer, **given: Any) -> None:
    """Escalate dead tasks: they stay dead and are marked for another reviewer."""
    await decide(queue, out, "escalate", given)


@click.command()
@decided_tasks
@on_queue
async def cancel(queue: Queue, out: Printer, **given: Any) -> None:
    """Cancel dead tasks and the tasks that depend on them."""
    await decide(queue, out, "cancel", given)


@click.command()
@decided_tasks
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
    from rqueue.dead import admin  # noqa: PLC0415 - commands import what they call

    operations = queue._internals.dead
    with out.working("search"):
        chosen = await operations.chosen(admin.dead_filter(cast("Wanted", wanted)))
    found = admin.Resolved([one.task for one in chosen])
    if chosen and not dry_run:
        if not given["yes"]:
            confirm(counted(len(chosen)), resolution, DONE[resolution])
        with out.measured(resolution) as progress:
            # Only the counted tasks: others may have died since.
            found = await operations.decide_many(chosen, decision, progress=progress)
    print_resolved(out, resolution, found, dry_run=dry_run)


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


def print_resolved(out: Printer, resolution: Resolution, found: Resolved, *, dry_run: bool) -> None:
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


def decision_in(
    queue: Queue, resolution: Resolution, given: dict[str, Any], **more: Any
) -> Decision:
    """The decision from the options. Raises InvalidTask for an invalid one."""
    from rqueue.dead.decide import decision_of  # noqa: PLC0415 - commands import what they call

    options = {name: given[name] for name in ("cause", "note", "by")} | more
    return decision_of(
        resolution, cast("DecisionOptions", options), by=queue._internals.operations.reviewer
    )


@click.command()
@click.argument("task", metavar="TASK")
@click.option("--payload", metavar="JSON", help="The new payload; `-` reads standard input.")
@click.option("--payload-file", type=FILE, metavar="FILE", help="A file with the new payload.")
@decision_options
@on_queue
async def edit(
    queue: Queue,
    out: Printer,
    task: str,
    *,
    payload: str | None,
    payload_file: Path | None,
    **given: Any,
) -> None:
    """Change the payload of a dead task and retry it.

    Without --payload or --payload-file, opens the payload in $EDITOR. The change is recorded with
    the decision. Exit 1 if nothing was changed.
    """
    from rqueue.dead.decide import difference  # noqa: PLC0415 - commands import what they call

    if payload is not None and payload_file is not None:
        raise click.UsageError("give either --payload or --payload-file")
    found = await queue.get(task)
    if found.state is not State.DEAD_LETTERED:
        raise WrongState(found.id, found=found.state, wanted=[State.DEAD_LETTERED])
    after = new_payload(found, payload, payload_file)
    steps = difference(found.payload, after)
    if not steps:
        note(f"{found.id}: the payload is unchanged; to retry it unchanged: rqueue dead retry")
        raise nothing()
    decision, operations = decision_in(queue, "modify_and_retry", given), queue._internals.dead
    dry_run = bool(given["dry_run"])
    if dry_run:
        await operations.check(found.id, decision, after)
    else:
        # Only in the life that was shown: the editor may be open for long, and others may decide.
        found = await operations.decide(found.id, decision, after, life=found.life)
    document = {"id": found.id, "resolution": "modify_and_retry", "state": found.state}
    out.one(
        {**document, "dry_run": dry_run, "diff": steps},
        f"{found.id} {'would be' if dry_run else 'was'} changed and retried:",
        *(json.dumps(step) for step in steps),
    )


def new_payload(found: Task, payload: str | None, payload_file: Path | None) -> Any:
    """The new payload: from an option, from a file, or from the editor."""
    if payload is not None:
        return from_argument(payload, "payload")
    return from_editor(found) if payload_file is None else from_file(payload_file)


def from_editor(found: Task) -> Any:
    """The payload as edited by the user; unchanged if the editor saved nothing."""
    text = json.dumps(found.payload, indent=2, ensure_ascii=False)
    edited = click.edit(f"{text}\n", extension=".json")
    return found.payload if edited is None else parsed(edited.encode(errors="replace"))


def from_file(path: Path) -> Any:
    """The payload in a file."""
    return parsed(path.read_bytes())


def parsed(data: bytes) -> Any:
    """The value of a JSON text. Raises UsageError if it is not JSON."""
    try:
        return decode(data.strip(), field="payload", max_depth=MAX_DEPTH)
    except InvalidTask as error:
        raise click.UsageError(str(error)) from error


COMMANDS = (retry, edit, wait, escalate, cancel, delete)
