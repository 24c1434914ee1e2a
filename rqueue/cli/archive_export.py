"""`rqueue archive export`: ended tasks into a file, however many they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.archive_parquet import Parquet
from rqueue.cli.archive_seeking import seeking, sought_in
from rqueue.cli.archive_table import Csv, JsonLines, Sheet
from rqueue.cli.exits import nothing
from rqueue.cli.output import Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.model.task import Task
    from rqueue.queue import Queue

FORMATS = ("csv", "jsonl", "parquet")
STANDARD_OUTPUT = "-"
# Tasks that are written together; fewer where they are large.
TOGETHER = 1_000
BYTES = 16_000_000


@click.command()
@seeking
@click.option("--format", "form", type=click.Choice(FORMATS), required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=STANDARD_OUTPUT,
    type=click.Path(dir_okay=False),
    help="Where to. [default: standard output]",
)
@click.option("--limit", type=click.IntRange(1), help="At most so many, the last that ended.")
@on_queue
async def export(
    queue: Queue, out: Printer, *, form: str, output: str, limit: int | None, **given: Any
) -> None:
    """Write ended tasks into a file, the last first.

    FILE is there when all of it is written; a pipe or a device is written into. In CSV a text that
    a spreadsheet would take for a formula begins with an apostrophe. Exit 1 when there is nothing
    to write.
    """
    if form == "parquet" and output == STANDARD_OUTPUT:
        raise click.UsageError("--format parquet is written into a file: give -o FILE")
    sought = sought_in(given)
    done = total = 0
    with out.measured("export") as heard:
        if heard is not None:
            total = await queue.archived.count(**sought)
            total = total if limit is None else min(limit, total)
        with sheet_at(form, output) as sheet:
            batch: list[Task] = []
            size = 0
            async for task in queue.archived.find(limit=limit, **sought):
                batch.append(task)
                size += len(str(task.payload)) + len(str(task.result))
                done += 1
                if len(batch) >= TOGETHER or size >= BYTES:
                    sheet.write(batch)
                    batch, size = [], 0
                    if heard is not None:
                        heard(done, max(done, total))
            sheet.write(batch)
    if output != STANDARD_OUTPUT:
        out.one({"file": output, "format": form, "tasks": done}, f"{output}: {done} tasks")
    if not done:
        note("nothing fits")
        raise nothing()


@contextmanager
def sheet_at(form: str, output: str) -> Iterator[Sheet]:
    """A sheet to write on; wrong usage where that cannot be."""
    if output == STANDARD_OUTPUT:
        yield JsonLines(sys.stdout) if form == "jsonl" else Csv(sys.stdout)
        return
    try:
        with whole_at(Path(output)) as path:
            if form == "parquet":
                sheet: Sheet = Parquet(path)
                yield sheet
                sheet.close()
                return
            with path.open("w", encoding="utf-8", newline="") as file:
                sheet = JsonLines(file) if form == "jsonl" else Csv(file)
                yield sheet
                sheet.close()
    except OSError as error:
        why = error.strerror or error
        raise click.UsageError(f"{output} cannot be written: {why}") from error


@contextmanager
def whole_at(place: Path) -> Iterator[Path]:
    """Where to write what shall stand at a place: beside it, and it is put there when it is whole.
    What is no file, such as a pipe or a device, has no other place: it is written into.
    """
    if place.exists() and not place.is_file():
        yield place
        return
    # A link stays what it is: the file that it leads to is replaced.
    target = Path(os.path.realpath(place))
    beside = target.with_name(f".{target.name}.part")
    try:
        yield beside
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
