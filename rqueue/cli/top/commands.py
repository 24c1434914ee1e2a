"""`rqueue top`: a live view of a queue, or one view of it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from rqueue.cli.output.tables import Printer, print_columns
from rqueue.cli.session import on_queue
from rqueue.cli.top.frame import View, follow, take
from rqueue.cli.top.panels import document, head, panels

if TYPE_CHECKING:
    from rqueue.queue import Queue

INTERVAL = click.FloatRange(0.1)


@click.command()
@click.option(
    "--interval", type=INTERVAL, default=1.0, show_default=True, help="Seconds between views."
)
@click.option("--once", is_flag=True, help="Print one view and exit.")
@on_queue
async def top(queue: Queue, out: Printer, *, interval: float, once: bool) -> None:
    """Show a live view of a queue.

    Shows counts, rates, types, workers, the longest-running tasks and the latest failures; q or
    Ctrl-C quits. Without a terminal, prints one view; with --json, one document in each interval.
    """
    if once or not (out.as_json or sys.stdout.isatty()):
        print_view(out, View(await take(queue)))
    elif out.as_json:
        async for view in follow(queue, interval, asyncio.Event()):
            out.json(document(view))
    else:
        # Imported here: rich takes a tenth of a second.
        from rqueue.cli.output.screen import live  # noqa: PLC0415

        stop = asyncio.Event()
        await live(queue, interval_sec=interval, stop=stop, leave=stop.set)


def print_view(out: Printer, view: View) -> None:
    """Prints a view: as JSON, as a picture in a terminal, or as plain columns in a pipe."""
    if out.as_json:
        out.json(document(view))
    elif sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        from rqueue.cli.output.screen import picture  # noqa: PLC0415

        console = Console()
        console.print(picture(view, console.width))
    else:
        print_plain(view)


def print_plain(view: View) -> None:
    """Prints a view in plain columns."""
    for line in head(view):
        click.echo(line)
    for table in panels(view.frame) if view.frame else ():
        click.echo()
        print_columns(table.titles, table.rows)
