"""`rqueue artifacts`: files and other large things beside the queue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, note
from rqueue.cli.session import on_queue
from rqueue.client.artifactdesk import SWEEP_DAYS

if TYPE_CHECKING:
    from rqueue.model.artifact import Artifact
    from rqueue.queue import Queue

COLUMNS: Columns[Artifact] = {
    "REFERENCE": lambda row: row.reference,
    "NAME": lambda row: row.name,
    "TYPE": lambda row: row.media_type,
    "BYTES": lambda row: str(row.size),
}


def document(row: Artifact) -> dict[str, object]:
    """An artifact for programs."""
    return {"reference": row.reference, **row.model_dump(mode="json")}


@click.group()
def artifacts() -> None:
    """Artifacts: files and other large things, kept beside the queue.

    They stand in artifacts_url (RQUEUE_ARTIFACTS_URL), a directory or a bucket of an S3 API.
    """


@artifacts.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="What it is called. [default: the file's name]")
@click.option("--type", "media_type", metavar="MEDIA", help="Its media type. [default: guessed]")
@on_queue
async def put(
    queue: Queue, out: Printer, file: Path, *, name: str | None, media_type: str | None
) -> None:
    """Keep a FILE, and print the reference to it."""
    found = await queue.artifacts.put(file, name=name, media_type=media_type)
    out.one(document(found), found.reference)


@artifacts.command()
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Into this file.")
@on_queue
async def get(queue: Queue, out: Printer, reference: str, *, output: Path | None) -> None:
    """Write the bytes of an artifact to the standard output or, whole and checked, into a file.

    On the standard output, that they are damaged is said after the last of them: look at the exit
    code.
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
    """List what a TASK has put."""
    found = await queue.artifacts.of(task)
    out.rows(found, COLUMNS, document)
    if not found and not out.as_json:
        note(f"{task} has put nothing")


@artifacts.command()
@click.option(
    "--days",
    type=click.FloatRange(min=1),
    default=SWEEP_DAYS,
    show_default=True,
    help="Only what is older.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@on_queue
async def sweep(queue: Queue, out: Printer, *, days: float, dry_run: bool) -> None:
    """Delete what tasks have put and nothing of the queue names any more."""
    with out.working("sweeping"):
        swept = await queue.artifacts.sweep(days, dry_run=dry_run)
    if not out.as_json:
        for id in swept.found if dry_run else ():
            click.echo(id)
    facts = {"found": swept.found, "deleted": swept.deleted, "more": swept.more}
    done = "would be deleted" if dry_run else "deleted"
    out.one(facts, f"{len(swept.found)} {done}{'; run it again: there is more' * swept.more}")
