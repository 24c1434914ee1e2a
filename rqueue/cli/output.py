"""What commands print: tables for people, plain columns in a pipe, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from rqueue.model.checked import CONTROL
from rqueue.policy.headline import headline

if TYPE_CHECKING:
    from rqueue.client.ending import Told

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str]]

STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
    "RUNNING": "cyan",
    "COMPLETED": "green",
    "RETRYING": "yellow",
    "DEAD_LETTERED": "bold red",
    "CANCELLED": "dim",
}


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints what a command found, as its caller asked for it."""

    as_json: bool = False

    def rows(
        self, items: Iterable[T], columns: Columns[T], document: Callable[[T], object]
    ) -> None:
        """One line of JSON for each item, or a table of all."""
        if self.as_json:
            for item in items:
                self.json(document(item))
            return
        found = [[clean(cell(item)) for cell in columns.values()] for item in items]
        if sys.stdout.isatty():
            print_table(list(columns), found)
        else:
            print_columns(list(columns), found)

    def one(self, document: object, *lines: str) -> None:
        """One document of JSON, or these lines."""
        if self.as_json:
            self.json(document)
            return
        for line in lines:
            click.echo(clean(line))

    def json(self, document: object) -> None:
        """A document in one line, in ASCII: no terminal and no pipe is upset by it."""
        click.echo(json.dumps(document, default=str))

    @property
    def watched(self) -> bool:
        """Whether a person waits in front: programs get no signs of progress."""
        return sys.stderr.isatty() and not self.as_json

    def tracked(self, items: Sequence[T], doing: str) -> Iterable[T]:
        """The items, with a bar on the terminal while they are gone through."""
        return bar(items, doing) if self.watched else items

    def measured(self, doing: str) -> AbstractContextManager[Told | None]:
        """What is to be told how far a long call has come: a bar on the terminal shows it."""
        return measuring(doing) if self.watched else nullcontext()

    def working(self, doing: str) -> AbstractContextManager[object]:
        """A sign on the terminal that a long call goes on."""
        return spinner(doing) if self.watched else nullcontext()


def note(text: str) -> None:
    """A word to the person in front, beside what is printed."""
    click.echo(f"rqueue: {clean(text)}", err=True)


def clean(text: str) -> str:
    """The text in one line that changes nothing about the terminal; errors hold anything."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def cut(text: str, width: int) -> str:
    """The first line of a text, as far as it fits."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= width else f"{line[: width - 1]}…"


def gist(error: str | None, width: int) -> str:
    """What an error says in one line, as far as it fits."""
    return cut(headline(error or ""), width)


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns with blanks between, nothing cut off."""
    whole = [titles, *rows]
    widths = [max(len(row[at]) for row in whole) for at in range(len(titles))]
    for row in whole:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for a terminal."""
    # Read here: most commands never print one, and it takes a tenth of a second.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*titles, box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    Console().print(table)


def spinner(doing: str) -> AbstractContextManager[object]:
    """`Printer.working` on a terminal."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True).status(doing)


@contextmanager
def measuring(doing: str) -> Iterator[Told]:
    """`Printer.measured` on a terminal."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        shown = progress.add_task(doing, total=None)
        yield lambda done, of: progress.update(shown, completed=done, total=of)


def bar(items: Sequence[T], doing: str) -> Iterator[T]:
    """`Printer.tracked` on a terminal."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import track  # noqa: PLC0415

    yield from track(items, doing, console=Console(stderr=True), transient=True)


def span(seconds: float) -> str:
    """A length of time in its two largest units."""
    left = max(0, round(seconds))
    for size, unit, below, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if left >= size:
            return f"{left // size}{unit} {left % size // below}{smaller}"
    return f"{left // 60}m {left % 60}s" if left >= 60 else f"{left}s"  # noqa: PLR2004 (a minute)
