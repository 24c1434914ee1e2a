"""`rqueue archive export`: writes ended tasks to a file, in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.archive.file_formats import Csv, JsonLines, Parquet, Sheet
from rqueue.cli.archive.search import filter_in, task_filter
from rqueue.cli.main import nothing
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.queue import Queue
    from rqueue.task.task import Task

FORMATS = ("csv", "jsonl", "parquet")
STANDARD_OUTPUT = "-"
# Tasks written in one batch; fewer if their payloads and results exceed BATCH_BYTES.
BATCH = 1_000
BATCH_BYTES = 16_000_000


@click.command()
@task_filter
@click.option(
    "--format", "form", type=click.Choice(FORMATS), required=True, help="The file format."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=STANDARD_OUTPUT,
    type=click.Path(dir_okay=False),
    help="The file. [default: standard output]",
)
@click.option(
    "--limit", type=click.IntRange(1), help="Maximum number of tasks, the most recent first."
)
@on_queue
async def export(
    queue: Queue, out: Printer, *, form: str, output: str, limit: int | None, **given: Any
) -> None:
    """Write ended tasks to a file, the most recent first.

    FILE appears when it is complete; a pipe or a device is written directly. In CSV, texts that a
    spreadsheet would read as formulas start with an apostrophe. Exit 1 if no task matches.
    """
    if form == "parquet" and output == STANDARD_OUTPUT:
        raise click.UsageError("--format parquet needs a file: give -o FILE")
    wanted = filter_in(given)
    done = total = 0
    with out.measured("export") as progress:
        if progress is not None:
            total = await queue.archive.count(**wanted)
            total = total if limit is None else min(limit, total)
        with sheet_at(form, output) as sheet:
            batch: list[Task] = []
            size = 0
            async for task in queue.archive.search(limit=limit, **wanted):
                batch.append(task)
                size += len(str(task.payload)) + len(str(task.result))
                done += 1
                if len(batch) >= BATCH or size >= BATCH_BYTES:
                    sheet.write(batch)
                    batch, size = [], 0
                    if progress is not None:
                        progress(done, max(done, total))
            sheet.write(batch)
    if output != STANDARD_OUTPUT:
        out.one(
            {"file": output, "format": form, "tasks": done},
            f"{output}: {done} task{'' if done == 1 else 's'}",
        )
    if not done:
        note("no task matches")
        raise nothing()


@contextmanager
def sheet_at(form: str, output: str) -> Iterator[Sheet]:
    """Opens the output in its format. Raises UsageError if it cannot be written."""
    if output == STANDARD_OUTPUT:
        yield JsonLines(sys.stdout) if form == "jsonl" else Csv(sys.stdout)
        return
    try:
        with replaced_at(Path(output)) as path:
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
        reason = error.strerror or error
        raise click.UsageError(f"{output} cannot be written: {reason}") from error


@contextmanager
def replaced_at(path: Path) -> Iterator[Path]:
    """A temporary file beside the path, which replaces it when it is complete. What is not a
    regular file, such as a pipe or a device, is written directly.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    # A link is kept: the file that it points to is replaced.
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.part")
    try:
        yield beside
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
