"""The text of `rqueue top`: a head and a few small tables, fitted to the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rqueue.cli.output.tables import clean, cut, gist, span
from rqueue.clock import SYSTEM
from rqueue.task.state import LEASED, WAITING, State

if TYPE_CHECKING:
    from rqueue.cli.top.frame import Frame, View
    from rqueue.core.counts import ActiveTask, Failure

NOTE_WIDTH = 60
# Lines of a table besides its rows: the titles and the empty line above.
AROUND = 2
# The gap between columns, and the minimum width of a cut column and number of columns.
GAP, LEAST, LEAST_COLUMNS = 2, 8, 2
# The column that is never cut: a part of an id is useless.
UNCUT = "ID"
WORDS = {"task.retrying": "RETRYING", "task.dead_lettered": "DEAD_LETTERED"}
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


def head(view: View) -> list[str]:
    """The lines above the tables."""
    frame = view.frame
    trouble = [f"server unavailable, retrying: {clean(view.trouble)}"] if view.trouble else []
    if frame is None:
        return trouble or ["loading"]
    by_state = frame.counts.by_state.items()
    states = [f"{state} {number}" for state, number in by_state if number]
    rates = ""
    if frame.rates is not None:
        rates = f"in {frame.rates.submitted:.0f}/s, done {frame.rates.completed:.0f}/s"
    paused = ", ".join(sorted(frame.counts.paused))
    facts = [f"scheduler {frame.look.leader or 'none'}", f"paused {paused}" if paused else ""]
    lines = [
        f"queue {frame.queue} on {frame.address} at {frame.at:%H:%M:%S} UTC",
        "  ".join(states) or "no tasks yet",
        "  ".join(clean(word) for word in (rates, *facts) if word),
    ]
    return [*trouble, *lines]


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
        counts, wait = by_type[type], frame.look.waits_ms.get(type)
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
        (hand.name, str(hand.held), f"{span(hand.silent_ms / 1000)} ago")
        for hand in frame.look.workers
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
        room = width - sum(before) - GAP * len(before)
        if room >= (last if panel.titles[count - 1] == UNCUT else min(last, LEAST)):
            break
        count -= 1
    room = max(LEAST, width - sum(widths[: count - 1]) - GAP * (count - 1))
    rows = tuple((*row[: count - 1], cut(row[count - 1], room)) for row in panel.rows)
    return replace(panel, titles=panel.titles[:count], rows=rows)


def document(view: View) -> dict[str, Any]:
    """A view as a JSON document; without a frame, only the error."""
    frame, trouble = view.frame, view.trouble
    if frame is None or trouble:
        return {"at": SYSTEM.now().isoformat(), "error": trouble}
    rates = frame.rates
    return {
        "at": frame.at.isoformat(),
        "queue": frame.queue,
        "server": frame.address,
        "scheduler": frame.look.leader,
        "paused": sorted(frame.counts.paused),
        "counts": frame.counts.by_state,
        "submitted": frame.counts.submitted,
        "submitted_per_sec": round(rates.submitted, 1) if rates else None,
        "completed_per_sec": round(rates.completed, 1) if rates else None,
        "types": {type: type_document(frame, type) for type in frame.counts.by_type},
        "workers": [
            {"worker": hand.name, "in_hand": hand.held, "silent_ms": hand.silent_ms}
            for hand in frame.look.workers
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
        "oldest_ms": frame.look.waits_ms.get(type),
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
