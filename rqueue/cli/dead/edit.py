"""`rqueue dead edit`: retries a dead task with a changed payload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.dead.reviewer import decision_in, saying
from rqueue.cli.main import nothing
from rqueue.cli.options import from_argument
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import on_queue
from rqueue.errors import InvalidTask, WrongState
from rqueue.task.codec import MAX_DEPTH, decode
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.queue import Queue
    from rqueue.task.task import Task

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("task", metavar="TASK")
@click.option("--payload", metavar="JSON", help="The new payload; `-` reads standard input.")
@click.option("--payload-file", type=FILE, metavar="FILE", help="A file with the new payload.")
@saying
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
    """The payload that was given, or what the user makes of the present one."""
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
