"""`rqueue top`: snapshots of a queue, read in bounded time, shown live, once or as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.output.panels import Panel, Row, drawing, fitted, narrowed, on_quit
from rqueue.cli.output.tables import Printer, clean, cut, gist, print_columns, span
from rqueue.cli.session import INTERVAL, on_queue
from rqueue.clock import SYSTEM, paused
from rqueue.errors import StoreUnavailable
from rqueue.task.state import LEASED, WAITING, State

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Group

    from rqueue.core.counts import ActiveTask, Counts, Failure, Overview
    from rqueue.queue import Queue
    from rqueue.task.ids import TaskId
    from rqueue.task.task import Task

NOTE_WIDTH = 60
# The state of the task after each event of a failure.
WORDS = {"task.retrying": "RETRYING", "task.dead_lettered": "DEAD_LETTERED"}
# How many of the longest-running and of the last failed tasks are read in full.
SHOWN = 10
# A server that does not answer within this is shown as unavailable; the read is retried.
PATIENCE_SEC = 3.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Submitted and completed tasks per second since the previous frame."""

    submitted: float
    completed: float
    by_type: dict[str, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """A snapshot of the queue; `rates` is set from the second frame on."""

    queue: str
    address: str
    at: datetime
    clock: float
    counts: Counts
    overview: Overview
    tasks: dict[TaskId, Task]
    rates: Rates | None = None

    @property
    def longest(self) -> list[ActiveTask]:
        """The tasks leased for the longest time."""
        return longest(self.overview)

    @property
    def failures(self) -> list[Failure]:
        """The latest failures."""
        return self.overview.failures[:SHOWN]

    def completed(self, type: str) -> int:
        """The number of completed tasks of a type since the queue was created."""
        return self.counts.by_type.get(type, {}).get(State.COMPLETED, 0)


@dataclass(frozen=True, slots=True)
class View:
    """The last frame that was read, and the error of a later read that failed."""

    frame: Frame | None
    error: str = ""


async def read_frame(queue: Queue, before: Frame | None = None) -> Frame:
    """Reads a frame. The cost grows with the lanes and workers, not with the tasks."""
    from rqueue.core.counts import read_overview  # noqa: PLC0415 - completion needs no moves

    counts, overview = await queue.counts(), await read_overview(queue._internals.shard)
    shown = {one.task.ulid for one in longest(overview)}
    shown |= {one.task.ulid for one in overview.failures[:SHOWN]}
    tasks = [task for task in await queue._internals.runtime.reader.read(sorted(shown)) if task]
    frame = Frame(
        queue=queue.name,
        address=queue._internals.runtime.connection.address,
        at=SYSTEM.now(),
        clock=SYSTEM.monotonic(),
        counts=counts,
        overview=overview,
        tasks={task.id: task for task in tasks},
    )
    return frame if before is None else replace(frame, rates=rates(before, frame))


def longest(overview: Overview) -> list[ActiveTask]:
    """The examined tasks that have been leased for the longest time."""
    return sorted(overview.active, key=lambda one: -one.for_ms)[:SHOWN]


def rates(before: Frame, now: Frame) -> Rates:
    """The rates between two frames; never negative, even if the queue was emptied."""
    seconds = max(now.clock - before.clock, 0.001)

    def rate(was: int, known: int) -> float:
        return max(0, known - was) / seconds

    done = State.COMPLETED
    return Rates(
        submitted=rate(before.counts.submitted, now.counts.submitted),
        completed=rate(before.counts[done], now.counts[done]),
        by_type={
            type: rate(before.completed(type), now.completed(type)) for type in now.counts.by_type
        },
    )


async def follow(queue: Queue, interval_sec: float, stop: asyncio.Event) -> AsyncIterator[View]:
    """Yields a view after each interval until `stop` is set; retries if the server fails."""
    view = View(None)
    while not stop.is_set():
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                view = View(await read_frame(queue, view.frame))
        except (StoreUnavailable, TimeoutError) as error:
            address = queue._internals.runtime.connection.address
            silence = f"{address}: no answer within {PATIENCE_SEC:g} s"
            view = View(view.frame, str(error) or silence)
        yield view
        await paused(stop, interval_sec)


def head(view: View) -> list[str]:
    """The lines above the tables."""
    frame = view.frame
    error = [f"server unavailable, retrying: {clean(view.error)}"] if view.error else []
    if frame is None:
        return error or ["loading"]
    by_state = frame.counts.by_state.items()
    states = [f"{state} {number}" for state, number in by_state if number]
    rates = ""
    if frame.rates is not None:
        rates = f"in {frame.rates.submitted:.0f}/s, done {frame.rates.completed:.0f}/s"
    paused = ", ".join(sorted(frame.counts.paused))
    facts = [f"scheduler {frame.overview.leader or 'none'}", f"paused {paused}" if paused else ""]
    lines = [
        f"queue {frame.queue} on {frame.address} at {frame.at:%H:%M:%S} UTC",
        "  ".join(states) or "no tasks yet",
        "  ".join(clean(word) for word in (rates, *facts) if word),
    ]
    return [*error, *lines]


def panels(frame: Frame) -> list[Panel]:
    """The tables of a frame, the most important first; empty ones are left out."""
    tables = [
        (("TYPE", "READY", "OLDEST", "RUNNING", "WAITING", "DEAD", "DONE", "DONE/S"), types(frame)),
        (("WORKER", "LEASED", "LAST SEEN"), workers(frame)),
        (("RUNS LONGEST", "TYPE", "FOR", "WORKER", "PROGRESS"), running(frame)),
        (("FAILED LAST", "TYPE", "NOW", "AGO", "WHY"), failed(frame)),
    ]
    return [
        Panel(titles, tuple(tuple(map(clean, row)) for row in rows), len(rows))
        for titles, rows in tables
        if rows
    ]


def types(frame: Frame) -> list[Row]:
    """A row for each type, the one with most live tasks first."""
    by_type = frame.counts.by_type

    def live(type: str) -> int:
        return sum(by_type[type].get(state, 0) for state in WAITING | LEASED)

    def row(type: str) -> Row:
        counts, wait = by_type[type], frame.overview.waits_ms.get(type)
        waiting = sum(counts.get(state, 0) for state in WAITING - {State.READY})
        numbers = [sum(counts.get(state, 0) for state in LEASED), waiting]
        numbers += [counts.get(State.DEAD_LETTERED, 0), counts.get(State.COMPLETED, 0)]
        rate = f"{frame.rates.by_type[type]:.0f}" if frame.rates else ""
        oldest = "" if wait is None else span(wait / 1000)
        return (type, str(counts.get(State.READY, 0)), oldest, *map(str, numbers), rate)

    return [row(type) for type in sorted(by_type, key=lambda type: (-live(type), type))]


def workers(frame: Frame) -> list[Row]:
    """A row for each worker, the busiest first."""
    return [
        (worker.name, str(worker.held), f"{span(worker.silent_ms / 1000)} ago")
        for worker in frame.overview.workers
    ]


def running(frame: Frame) -> list[Row]:
    """The longest-running tasks and their progress."""

    def row(one: ActiveTask) -> Row:
        task = frame.tasks.get(one.task)
        progress = "" if task is None or task.progress is None else json.dumps(task.progress)
        return (one.task, one.type, span(one.for_ms / 1000), one.worker, cut(progress, NOTE_WIDTH))

    return [row(one) for one in frame.longest]


def failed(frame: Frame) -> list[Row]:
    """The latest failures and their errors."""

    def row(one: Failure) -> Row:
        task = frame.tasks.get(one.task)
        # The event has only the reason; the error text is stored with the task, while that exists.
        why = (task.last_error if task else None) or one.reason
        type = task.type if task else ""
        ago = f"{span(one.ago_ms / 1000)} ago"
        return (one.task, type, WORDS[one.event], ago, gist(why, NOTE_WIDTH))

    return [row(one) for one in frame.failures]


def document(view: View) -> dict[str, Any]:
    """A view as a JSON document; without a frame, only the error."""
    frame, error = view.frame, view.error
    if frame is None or error:
        return {"at": SYSTEM.now().isoformat(), "error": error}
    rates = frame.rates
    return {
        "at": frame.at.isoformat(),
        "queue": frame.queue,
        "server": frame.address,
        "scheduler": frame.overview.leader,
        "paused": sorted(frame.counts.paused),
        "counts": frame.counts.by_state,
        "submitted": frame.counts.submitted,
        "submitted_per_sec": round(rates.submitted, 1) if rates else None,
        "completed_per_sec": round(rates.completed, 1) if rates else None,
        "types": {type: type_document(frame, type) for type in frame.counts.by_type},
        "workers": [
            {"worker": worker.name, "in_hand": worker.held, "silent_ms": worker.silent_ms}
            for worker in frame.overview.workers
        ],
        "longest": [running_document(frame, one) for one in frame.longest],
        "failures": [
            {"id": one.task, "state": WORDS[one.event], "reason": one.reason, "ago_ms": one.ago_ms}
            for one in frame.failures
        ],
    }


def type_document(frame: Frame, type: str) -> dict[str, Any]:
    """A type as a JSON document."""
    return {
        "counts": frame.counts.by_type[type],
        "oldest_ms": frame.overview.waits_ms.get(type),
        "completed_per_sec": round(frame.rates.by_type[type], 1) if frame.rates else None,
    }


def running_document(frame: Frame, one: ActiveTask) -> dict[str, Any]:
    """A running task as a JSON document."""
    task = frame.tasks.get(one.task)
    return {
        "id": one.task,
        "type": one.type,
        "state": one.state,
        "worker": one.worker,
        "for_ms": one.for_ms,
        "progress": task.progress if task else None,
    }


async def live(
    queue: Queue, *, interval_sec: float, stop: asyncio.Event, leave: Callable[[], None]
) -> None:
    """Shows the queue until `stop` is set; the key q calls `leave`."""
    # Imported here: rich takes a tenth of a second.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console = Console()
    with on_quit(leave), Live(console=console, screen=True, auto_refresh=False) as drawn:
        async for view in follow(queue, interval_sec, stop):
            drawn.update(picture(view, console.width, console.height), refresh=True)


def picture(view: View, width: int, height: int | None = None) -> Group:
    """The view for a terminal of this size; without a height, nothing is left out."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in head(view)]
    lines[0].stylize("bold red" if view.error else "bold")
    tables = panels(view.frame) if view.frame is not None else []
    if height is not None:
        tables = fitted(tables, height - len(lines))
    return Group(*lines, *(drawing(narrowed(table, width)) for table in tables))


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
        print_view(out, View(await read_frame(queue)))
    elif out.as_json:
        async for view in follow(queue, interval, asyncio.Event()):
            out.json(document(view))
    else:
        stop = asyncio.Event()
        await live(queue, interval_sec=interval, stop=stop, leave=stop.set)


def print_view(out: Printer, view: View) -> None:
    """Prints a view: as JSON, as a picture in a terminal, or as plain columns in a pipe."""
    if out.as_json:
        out.json(document(view))
    elif sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

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
