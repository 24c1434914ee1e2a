"""`rqueue top`: what a queue does, while it does it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from rqueue.cli.frame import View, follow, take
from rqueue.cli.output import Printer, print_columns
from rqueue.cli.panels import document, head, panels
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from rqueue.queue import Queue

INTERVAL = click.FloatRange(0.1)


@click.command()
@click.option("--interval", type=INTERVAL, default=1.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print one view and end.")
@on_queue
async def top(queue: Queue, out: Printer, *, interval: float, once: bool) -> None:
    """Watch a queue at work.

    Counts and rates, types, workers, what runs longest, what failed last; q or Ctrl-C ends it.
    Without a terminal one view is printed; with --json one document in each interval.
    """
    if once or not (out.as_json or sys.stdout.isatty()):
        print_view(out, View(await take(queue)))
    elif out.as_json:
        async for view in follow(queue, interval, asyncio.Event()):
            out.json(document(view))
    else:
        # Read here: rich takes a tenth of a second.
        from rqueue.cli.screen import live  # noqa: PLC0415

        stop = asyncio.Event()
        await live(queue, interval_sec=interval, stop=stop, leave=stop.set)


def print_view(out: Printer, view: View) -> None:
    """One view as it is asked for: JSON, a picture for a terminal, plain columns for a pipe."""
    if out.as_json:
        out.json(document(view))
    elif sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        from rqueue.cli.screen import picture  # noqa: PLC0415

        console = Console()
        console.print(picture(view, console.width))
    else:
        print_plain(view)


def print_plain(view: View) -> None:
    """One view in plain columns."""
    for line in head(view):
        click.echo(line)
    for table in panels(view.frame) if view.frame else ():
        click.echo()
        print_columns(table.titles, table.rows)
