"""Panels: small tables that are fitted to a terminal; the key that quits a live view."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.cli.output.tables import STYLES, cut

if TYPE_CHECKING:
    from rich.console import Group

# Lines of a table besides its rows: the titles and the empty line above.
AROUND = 2
# The gap between columns, and the minimum width of a cut column and number of columns.
GAP, LEAST, LEAST_COLUMNS = 2, 8, 2
# The column that is never cut: a part of an id is useless.
UNCUT = "ID"
QUIT, MAX_KEYS = b"q", 1024
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A small table; `total` is the number of rows before some were left out."""

    titles: Row
    rows: tuple[Row, ...]
    total: int

    @property
    def height(self) -> int:
        """The number of lines."""
        return len(self.rows) + AROUND

    @property
    def heading(self) -> Row:
        """The titles; the first includes the number of rows left out."""
        left = self.total - len(self.rows)
        return (f"{self.titles[0]} (+{left})" if left else self.titles[0], *self.titles[1:])


def fitted(tables: Sequence[Panel], height: int) -> list[Panel]:
    """The first tables that fit into so many lines; the longest ones are shortened first."""
    left = list(tables[: max(0, height // (AROUND + 1))])
    while left and sum(table.height for table in left) > height:
        longest = max(left, key=lambda table: len(table.rows))
        left[left.index(longest)] = replace(longest, rows=longest.rows[:-1])
    return left


def narrowed(panel: Panel, width: int) -> Panel:
    """The table for a terminal of this width: the last columns that do not fit are left out, and
    only the last remaining column is cut, so that numbers and ids stay whole. Two are always kept.
    """
    widths = [max(map(len, column)) for column in zip(panel.heading, *panel.rows, strict=True)]
    count = len(widths)
    while count > LEAST_COLUMNS:
        *before, last = widths[:count]
        space = width - sum(before) - GAP * len(before)
        if space >= (last if panel.titles[count - 1] == UNCUT else min(last, LEAST)):
            break
        count -= 1
    space = max(LEAST, width - sum(widths[: count - 1]) - GAP * (count - 1))
    rows = tuple((*row[: count - 1], cut(row[count - 1], space)) for row in panel.rows)
    return replace(panel, titles=panel.titles[:count], rows=rows)


def drawing(panel: Panel) -> Group:
    """One table below an empty line; cells that are too wide are cut."""
    # Imported here: rich takes a tenth of a second.
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for title in panel.heading:
        table.add_column(title, no_wrap=True, overflow="ellipsis", header_style="bold dim")
    for row in panel.rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    return Group(Text(""), table)


@contextmanager
def on_quit(leave: Callable[[], None]) -> Iterator[None]:
    """Calls `leave` when q is pressed; restores the terminal's mode afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    loop, keys = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(keys)

    def read() -> None:
        if QUIT in os.read(keys, MAX_KEYS).lower():
            leave()

    tty.setcbreak(keys)
    loop.add_reader(keys, read)
    try:
        yield
    finally:
        loop.remove_reader(keys)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
