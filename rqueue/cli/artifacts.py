"""`rqueue artifacts`: files and other large values that are stored outside Redis."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rqueue.artifacts.admin import SWEEP_DAYS
from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.queue import Queue
    from rqueue.task.artifact import Artifact

COLUMNS: Columns[Artifact] = {
    "REFERENCE": lambda row: row.reference,
    "NAME": lambda row: row.name,
    "TYPE": lambda row: row.media_type,
    "BYTES": lambda row: str(row.size),
}


def document(row: Artifact) -> dict[str, object]:
    """An artifact as a JSON document."""
    return {"reference": row.reference, **row.model_dump(mode="json")}


@click.group()
def artifacts() -> None:
    """Store and read artifacts: files and other large values.

    They are stored at artifacts_url (RQUEUE_ARTIFACTS_URL), a directory or an S3 bucket.
    """


@artifacts.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="The artifact's name. [default: the file's name]")
@click.option(
    "--type", "media_type", metavar="MEDIA", help="The media type. [default: guessed from the name]"
)
@on_queue
async def put(
    queue: Queue, out: Printer, file: Path, *, name: str | None, media_type: str | None
) -> None:
    """Store a FILE and print its reference."""
    found = await queue.artifacts.put(file, name=name, media_type=media_type)
    out.one(document(found), found.reference)


@artifacts.command()
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@on_queue
async def get(queue: Queue, out: Printer, reference: str, *, output: Path | None) -> None:
    """Write an artifact to standard output or to a file.

    A file appears only when its content is complete and verified. On standard output, damage is
    detected after the last byte: check the exit code.
    """
    if output is not None:
        found = await queue.artifacts.info(reference)
        await found.save(output)
        out.one(document(found), f"{found.size} bytes of {found.name} are in {output}")
        return
    async for piece in queue.artifacts.open(reference):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@artifacts.command("list")
@click.argument("task", metavar="TASK")
@on_queue
async def listed(queue: Queue, out: Printer, task: str) -> None:
    """List the artifacts of a TASK."""
    found = await queue.artifacts.list(task)
    out.rows(found, COLUMNS, document)
    if not found and not out.as_json:
        note(f"{task} has no artifacts")


@artifacts.command()
@click.option(
    "--days",
    type=click.FloatRange(min=1),
    default=SWEEP_DAYS,
    show_default=True,
    help="Only artifacts older than this.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@on_queue
async def sweep(queue: Queue, out: Printer, *, days: float, dry_run: bool) -> None:
    """Delete artifacts of tasks that are no longer referenced."""
    with out.working("sweeping"):
        swept = await queue.artifacts.sweep(days, dry_run=dry_run)
    if not out.as_json:
        for id in swept.found if dry_run else ():
            click.echo(id)
    facts = {"found": swept.found, "deleted": swept.deleted, "more": swept.more}
    done = "would be deleted" if dry_run else "deleted"
    out.one(facts, f"{len(swept.found)} {done}{'; there are more, run it again' * swept.more}")
