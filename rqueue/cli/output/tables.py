"""Output of commands: tables in a terminal, plain columns in a pipe, or JSON; texts of values."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.operations import Progress

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str]]

# Maximum width of an error or a value in one line.
WIDTH = 160
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
    """Prints the output of a command as text or, with `as_json`, as JSON."""

    as_json: bool = False

    def rows(
        self, items: Iterable[T], columns: Columns[T], document: Callable[[T], object]
    ) -> None:
        """Prints one line of JSON for each item, or a table of all."""
        if self.as_json:
            for item in items:
                self.json(document(item))
            return
        found = [[clean(cell(item)) for cell in columns.values()] for item in items]
        if sys.stdout.isatty():
            print_table(list(columns), found)
        else:
            print_columns(list(columns), found)

    async def first_rows(
        self,
        items: AsyncIterable[T],
        limit: int,
        columns: Columns[T],
        document: Callable[[T], object],
        *,
        order: Callable[[T], Any] | None = None,
    ) -> int:
        """Prints the first rows, sorted by `order` if given, and notes if there are more than the
        limit. Returns the number of printed rows.
        """
        found: list[T] = []
        more = False
        async for item in items:
            if len(found) == limit:
                more = True
                break
            found.append(item)
        if order is not None:
            found.sort(key=order)
        self.rows(found, columns, document)
        if more:
            note_more(limit)
        return len(found)

    def one(self, document: object, *lines: str) -> None:
        """Prints one JSON document, or these lines."""
        if self.as_json:
            self.json(document)
            return
        for line in lines:
            click.echo(clean(line))

    def json(self, document: object) -> None:
        """Prints a document in one line of ASCII, which is safe in every terminal and pipe."""
        click.echo(json.dumps(document, default=str))

    @property
    def watched(self) -> bool:
        """Whether progress is shown: only in a terminal and without --json."""
        return sys.stderr.isatty() and not self.as_json

    def tracked(self, items: Sequence[T], doing: str) -> Iterable[T]:
        """The items, with a progress bar on the terminal during the iteration."""
        return bar(items, doing) if self.watched else items

    def measured(self, doing: str) -> AbstractContextManager[Progress | None]:
        """A callback that shows the progress of a long call as a bar; None without a terminal."""
        return measuring(doing) if self.watched else nullcontext()

    def working(self, doing: str) -> AbstractContextManager[object]:
        """Shows a spinner on the terminal during a long call."""
        return spinner(doing) if self.watched else nullcontext()


def note(text: str) -> None:
    """Prints a remark to standard error."""
    click.echo(f"rqueue: {clean(text)}", err=True)


def note_more(limit: int) -> None:
    """Notes that there are more rows than the limit."""
    note(f"there are more than {limit}: narrow the filter or raise --limit")


def clean(text: str) -> str:
    """The text with control characters escaped: one line that cannot control the terminal."""
    from rqueue.task.fields import CONTROL  # noqa: PLC0415 - help and completion need no pydantic

    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def cut(text: str, width: int) -> str:
    """The first line of a text, cut to the width."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= width else f"{line[: width - 1]}…"


def gist(error: str | None, width: int) -> str:
    """The headline of an error, cut to the width."""
    from rqueue.task.attempt.error_text import headline  # noqa: PLC0415 - as in `clean`

    return cut(headline(error or ""), width)


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints columns separated by blanks, without cutting."""
    whole = [titles, *rows]
    widths = [max(len(row[at]) for row in whole) for at in range(len(titles))]
    for row in whole:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table for a terminal."""
    # Imported here: most commands print no table, and rich takes a tenth of a second.
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
def measuring(doing: str) -> Iterator[Progress]:
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
    """A duration in its two largest units."""
    left = max(0, round(seconds))
    for size, unit, below, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if left >= size:
            return f"{left // size}{unit} {left % size // below}{smaller}"
    return f"{left // 60}m {left % 60}s" if left >= 60 else f"{left}s"  # noqa: PLR2004 (a minute)


def clock(at: datetime) -> str:
    """An instant in UTC as text."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


def counted(number: int) -> str:
    """The number of tasks as text."""
    return f"{number} task{'' if number == 1 else 's'}"


def dollars(usd: float) -> str:
    """An amount in dollars as text, in cents or, below a cent, in millionths."""
    return f"${usd:,.2f}" if usd >= 0.01 or not usd else f"${usd:.6f}"  # noqa: PLR2004 (a cent)


def exact(usd: float | None) -> str:
    """An amount in dollars without rounding to cents; None is no limit."""
    return "no limit" if usd is None else f"{usd:,.6f}".rstrip("0").rstrip(".")
