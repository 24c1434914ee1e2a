"""`rqueue dead edit`: a dead task comes back with another payload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.dead_saying import decision_in, saying
from rqueue.cli.exits import nothing
from rqueue.cli.output import Printer, note
from rqueue.cli.payloads import from_argument
from rqueue.cli.session import on_queue
from rqueue.errors import InvalidTask, WrongState
from rqueue.model.codec import MAX_DEPTH, decode
from rqueue.model.state import State
from rqueue.policy.difference import difference

if TYPE_CHECKING:
    from rqueue.model.task import Task
    from rqueue.queue import Queue

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("task", metavar="TASK")
@click.option("--payload", metavar="JSON", help="The new payload; - reads standard input.")
@click.option("--payload-file", type=FILE, metavar="FILE", help="The same from a file.")
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
    """Change the payload of a dead task and give it a new life; what was changed is kept.

    Without --payload or --payload-file it is opened in $EDITOR. Exit 1 where nothing was changed.
    """
    if payload is not None and payload_file is not None:
        raise click.UsageError("give --payload or --payload-file, one of them")
    found = await queue.get(task)
    if found.state is not State.DEAD_LETTERED:
        raise WrongState(found.id, found=found.state, wanted=[State.DEAD_LETTERED])
    if payload is not None:
        after = from_argument(payload, "payload")
    else:
        after = from_editor(found) if payload_file is None else from_file(payload_file)
    steps = difference(found.payload, after)
    if not steps:
        note(f"{found.id}: the payload is the same; to try it again as it is: rqueue dead retry")
        raise nothing()
    decision, desk = decision_in(queue, "modify_and_retry", given), queue.review_desk
    dry_run = bool(given["dry_run"])
    if dry_run:
        await desk.check(found.id, decision, after)
    else:
        # The life that was shown: an editor may be open for long.
        found = await desk.resolve(found.id, decision, after, life=found.life)
    document = {"id": found.id, "resolution": "modify_and_retry", "state": found.state}
    out.one(
        {**document, "dry_run": dry_run, "diff": steps},
        f"{found.id} {'would be' if dry_run else 'was'} changed and retried:",
        *(json.dumps(step) for step in steps),
    )


def from_editor(found: Task) -> Any:
    """The payload as a person has changed it; the same where nothing was saved."""
    text = json.dumps(found.payload, indent=2, ensure_ascii=False)
    edited = click.edit(f"{text}\n", extension=".json")
    return found.payload if edited is None else parsed(edited.encode(errors="replace"))


def from_file(path: Path) -> Any:
    """The payload that a file holds."""
    return parsed(path.read_bytes())


def parsed(data: bytes) -> Any:
    """The value of JSON text, or wrong usage."""
    try:
        return decode(data.strip(), field="payload", max_depth=MAX_DEPTH)
    except InvalidTask as error:
        raise click.UsageError(str(error)) from error
