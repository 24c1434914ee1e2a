"""`rqueue dead report`: the decisions of a day as a Markdown page, dlq-review-{date}.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rqueue.cli.dead.show import row_of
from rqueue.cli.output.tables import Printer, clean, clock, note
from rqueue.cli.session import on_queue
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask
from rqueue.producer.arguments import instant_of
from rqueue.task.attempt.error_text import headline

if TYPE_CHECKING:
    from rqueue.dead.reviews import Review
    from rqueue.queue import Queue

# Characters with a meaning in Markdown, including those that turn bare addresses into links.
MARKS = re.compile(r"[\\`*_{}\[\]<>|~&@#$!]|(?<=:)//|(?<=www)\.", re.IGNORECASE)
DIR = click.Path(file_okay=False, path_type=Path)
DAY = timedelta(days=1)
# The line of a page that names its queue and its time.
HEADING = re.compile(
    r"^Queue (?P<all>(?P<queue>.+), from (?P<low>[-0-9: ]+) until (?P<high>[-0-9: ]+) UTC)\.$",
    re.MULTILINE,
)
ELSEWHERE = "give another directory with -o, or move the file away"
TITLES = ("Time", "By", "Task", "Type", "Error", "Resolution", "Cause", "Note")


@click.command()
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="The day. [default: today, UTC]")
@click.option("--since", metavar="TIME", help="From this time on, instead of a day.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option(
    "-o", "--output", type=DIR, default=Path(), help="The directory. [default: the current one]"
)
@on_queue
async def report(
    queue: Queue,
    out: Printer,
    *,
    date: datetime | None,
    since: str | None,
    until: str | None,
    output: Path,
) -> None:
    """Write the decisions of a day about dead tasks to dlq-review-{date}.md.

    With --json, prints one decision on each line instead.
    """
    if date is not None and (since is not None or until is not None):
        raise click.UsageError("give --date, or --since and --until")
    low, high = span_of(date, since, until)
    found = [review async for review in queue.dead.reviews(since=low, until=high)]
    if out.as_json:
        for review in found:
            out.json(row_of(review))
        return
    path = output / f"dlq-review-{name_of(low, high)}.md"
    check_replaced(path, queue.name, low, high)
    write(path, page(queue.name, low, high, found))
    click.echo(clean(str(path)))
    note(f"{len(found)} decision{'s' * (len(found) != 1)}")


def write(path: Path, lines: Iterable[str]) -> None:
    """Writes a page. Raises UsageError if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]), "utf-8")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error


def check_replaced(path: Path, queue: str, low: datetime, high: datetime) -> None:
    """Raises UsageError if the file is not a page of this queue whose time this page covers."""
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    there = HEADING.search(text)
    if there is None:
        raise click.UsageError(f"{path} is not a page of decisions: {ELSEWHERE}")
    is_less = there["low"] < clock(low) or clock(high) < there["high"]
    if is_less or there["queue"] != escaped(queue):
        raise click.UsageError(f"{path} is the page of {there['all']}: {ELSEWHERE}")


def span_of(
    date: datetime | None, since: str | None, until: str | None
) -> tuple[datetime, datetime]:
    """The start and end: a day in UTC, or as given."""
    if since is None and until is None:
        day = (date or SYSTEM.now()).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
        try:
            return day, day + DAY
        except OverflowError:
            raise click.UsageError(
                f"--date {day.date()}: the last day of the calendar cannot be reported"
            ) from None
    high = SYSTEM.now() if until is None else aware(until, "--until")
    low = high.replace(hour=0, minute=0, second=0, microsecond=0)
    low = low if since is None else aware(since, "--since")
    if low >= high:
        raise click.UsageError("--since must be before --until")
    return low, high


def aware(text: str, option: str) -> datetime:
    """An instant in UTC. Raises UsageError without a time zone."""
    try:
        return instant_of(option, text)
    except InvalidTask as error:
        raise click.UsageError(str(error)) from error


def name_of(low: datetime, high: datetime) -> str:
    """The day, or the first and the last day, as in the file's name."""
    first, last = low.date(), (high - timedelta(microseconds=1)).date()
    return f"{first}" if first == last else f"{first}_{last}"


def page(queue: str, low: datetime, high: datetime, found: Sequence[Review]) -> Iterator[str]:
    """Yields the lines of the page."""
    yield f"# Dead tasks: decisions of {name_of(low, high).replace('_', ' to ')}"
    yield ""
    yield f"Queue {escaped(queue)}, from {clock(low)} until {clock(high)} UTC."
    yield ""
    if not found:
        yield "Nothing was decided."
        return
    counts = Counter(review.resolution for review in found)
    yield ", ".join(f"{escaped(word)} {number}" for word, number in counts.most_common()) + "."
    yield ""
    yield f"| {' | '.join(TITLES)} |"
    yield f"|{' --- |' * len(TITLES)}"
    for review in found:
        yield f"| {' | '.join(cells(review))} |"
    for review in found:
        if review.diff:
            yield from changed(review)


def cells(review: Review) -> Iterator[str]:
    """Yields the cells of a decision's row."""
    later = f" until {clock(review.not_before)}" if review.not_before else ""
    error = f"{review.reason}: {headline(review.error)}" if review.error else review.reason
    yield clock(review.at)
    yield escaped(review.by)
    yield escaped(f"{review.task}, life {review.life}")
    yield escaped(review.type)
    yield escaped(error) + (f" ({review.fingerprint})" if review.fingerprint else "")
    yield escaped(review.resolution) + later
    yield escaped(review.cause)
    yield escaped(review.note)


def changed(review: Review) -> Iterator[str]:
    """Yields the changes of a payload, one on each line. In ASCII no text can end the block."""
    yield ""
    yield f"## Changed: {escaped(review.task)}, life {review.life}"
    yield ""
    yield "```json"
    yield from (json.dumps(step) for step in review.diff)
    yield "```"


def escaped(text: str) -> str:
    """The text in one line, with everything escaped that Markdown would interpret."""
    return MARKS.sub(lambda found: f"\\{found[0]}", clean(text))
