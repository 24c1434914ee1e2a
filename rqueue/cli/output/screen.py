"""Live views on the whole terminal, whose previous mode is restored at the end."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rqueue.cli.output.tables import STYLES
from rqueue.cli.top.frame import follow
from rqueue.cli.top.panels import Panel, fitted, head, narrowed, panels

if TYPE_CHECKING:
    from rqueue.cli.top.frame import View
    from rqueue.queue import Queue

LEAVE, MANY = b"q", 1024


async def live(
    queue: Queue, *, interval_sec: float, stop: asyncio.Event, leave: Callable[[], None]
) -> None:
    """Shows the queue until `stop` is set; the key q calls `leave`."""
    console = Console()
    with pressed(leave), Live(console=console, screen=True, auto_refresh=False) as drawn:
        async for view in follow(queue, interval_sec, stop):
            drawn.update(picture(view, console.width, console.height), refresh=True)


def picture(view: View, width: int, height: int | None = None) -> Group:
    """The view for a terminal of this size; without a height, nothing is left out."""
    lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in head(view)]
    lines[0].stylize("bold red" if view.trouble else "bold")
    tables = panels(view.frame) if view.frame is not None else []
    if height is not None:
        tables = fitted(tables, height - len(lines))
    return Group(*lines, *(drawing(narrowed(table, width)) for table in tables))


def drawing(panel: Panel) -> Group:
    """One table below an empty line; cells that are too wide are cut."""
    table = Table(box=None, pad_edge=False)
    for title in panel.heading:
        table.add_column(title, no_wrap=True, overflow="ellipsis", header_style="bold dim")
    for row in panel.rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    return Group(Text(""), table)


@contextmanager
def pressed(leave: Callable[[], None]) -> Iterator[None]:
    """Calls `leave` when q is pressed; restores the terminal's mode afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    loop, keys = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(keys)

    def read() -> None:
        if LEAVE in os.read(keys, MANY).lower():
            leave()

    tty.setcbreak(keys)
    loop.add_reader(keys, read)
    try:
        yield
    finally:
        loop.remove_reader(keys)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
