"""What `rqueue top` says: a head and a few small tables, fitted to the height of a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rqueue.cli.output import clean, cut, gist, span
from rqueue.clock import SYSTEM
from rqueue.model.state import IN_HAND, WAITING, State

if TYPE_CHECKING:
    from rqueue.cli.frame import Frame, View
    from rqueue.store.look import Failure, Underway

NOTE_WIDTH = 60
# A table's titles, and the empty line before it.
AROUND = 2
# Between two columns, and the least that is left of one that is cut.
GAP, LEAST, LEAST_COLUMNS = 2, 8, 2
# A part of an id is good for nothing.
UNCUT = "ID"
WORDS = {"task.retrying": "RETRYING", "task.dead_lettered": "DEAD_LETTERED"}
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A small table; `total` rows were there before any was left out."""

    titles: Row
    rows: tuple[Row, ...]
    total: int

    @property
    def height(self) -> int:
        """The lines it takes."""
        return len(self.rows) + AROUND

    @property
    def heading(self) -> Row:
        """Its titles; the first says how many rows are left out."""
        left = self.total - len(self.rows)
        return (f"{self.titles[0]} (+{left})" if left else self.titles[0], *self.titles[1:])


def head(view: View) -> list[str]:
    """The lines above the tables."""
    frame = view.frame
    trouble = [f"server away, trying again: {clean(view.trouble)}"] if view.trouble else []
    if frame is None:
        return trouble or ["looking"]
    by_state = frame.counts.by_state.items()
    states = [f"{state} {number}" for state, number in by_state if number]
    rates = ""
    if frame.rates is not None:
        rates = f"in {frame.rates.submitted:.0f}/s, done {frame.rates.completed:.0f}/s"
    paused = ", ".join(sorted(frame.counts.paused))
    facts = [f"scheduler {frame.look.leader or 'nobody'}", f"paused {paused}" if paused else ""]
    lines = [
        f"queue {frame.queue} on {frame.address} at {frame.at:%H:%M:%S} UTC",
        "  ".join(states) or "no tasks yet",
        "  ".join(clean(word) for word in (rates, *facts) if word),
    ]
    return [*trouble, *lines]


def panels(frame: Frame) -> list[Panel]:
    """The tables of a frame, the most telling first; those with nothing to say are left out."""
    tables = [
        (("TYPE", "READY", "OLDEST", "RUNNING", "WAITING", "DEAD", "DONE", "DONE/S"), types(frame)),
        (("WORKER", "IN HAND", "LAST HEARD"), workers(frame)),
        (("RUNS LONGEST", "TYPE", "FOR", "WORKER", "PROGRESS"), running(frame)),
        (("FAILED LAST", "TYPE", "NOW", "AGO", "WHY"), failed(frame)),
    ]
    return [
        Panel(titles, tuple(tuple(map(clean, row)) for row in rows), len(rows))
        for titles, rows in tables
        if rows
    ]


def types(frame: Frame) -> list[Row]:
    """A row for each type, those with most to do first."""
    by_type = frame.counts.by_type

    def live(type: str) -> int:
        return sum(by_type[type].get(state, 0) for state in WAITING | IN_HAND)

    def row(type: str) -> Row:
        counts, wait = by_type[type], frame.look.waits_ms.get(type)
        waiting = sum(counts.get(state, 0) for state in WAITING - {State.READY})
        numbers = [sum(counts.get(state, 0) for state in IN_HAND), waiting]
        numbers += [counts.get(State.DEAD_LETTERED, 0), counts.get(State.COMPLETED, 0)]
        rate = f"{frame.rates.by_type[type]:.0f}" if frame.rates else ""
        oldest = "" if wait is None else span(wait / 1000)
        return (type, str(counts.get(State.READY, 0)), oldest, *map(str, numbers), rate)

    return [row(type) for type in sorted(by_type, key=lambda type: (-live(type), type))]


def workers(frame: Frame) -> list[Row]:
    """A row for each worker, the busiest first."""
    return [
        (hand.name, str(hand.held), f"{span(hand.silent_ms / 1000)} ago")
        for hand in frame.look.hands
    ]


def running(frame: Frame) -> list[Row]:
    """What runs longest, and how far it says it is."""

    def row(one: Underway) -> Row:
        task = frame.tasks.get(one.task)
        progress = "" if task is None or task.progress is None else json.dumps(task.progress)
        return (one.task, one.type, span(one.for_ms / 1000), one.worker, cut(progress, NOTE_WIDTH))

    return [row(one) for one in frame.longest]


def failed(frame: Frame) -> list[Row]:
    """What failed last, and why."""

    def row(one: Failure) -> Row:
        task = frame.tasks.get(one.task)
        # An event says the reason; what the handler said is with the task, while that is kept.
        why = (task.last_error if task else None) or one.reason
        type = task.type if task else ""
        ago = f"{span(one.ago_ms / 1000)} ago"
        return (one.task, type, WORDS[one.event], ago, gist(why, NOTE_WIDTH))

    return [row(one) for one in frame.failures]


def fitted(tables: Sequence[Panel], height: int) -> list[Panel]:
    """The first of the tables in so many lines; the longest gives up a row, again and again."""
    left = list(tables[: max(0, height // (AROUND + 1))])
    while left and sum(table.height for table in left) > height:
        longest = max(left, key=lambda table: len(table.rows))
        left[left.index(longest)] = replace(longest, rows=longest.rows[:-1])
    return left


def narrowed(panel: Panel, width: int) -> Panel:
    """The table in so many columns of a terminal: the last ones that do not fit are left out, and
    the last one that does is cut, so that no number is, and no id; two are kept.
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
    """A view for programs; without a frame only what keeps it away."""
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
            for hand in frame.look.hands
        ],
        "longest": [running_document(frame, one) for one in frame.longest],
        "failures": [
            {"id": one.task, "state": WORDS[one.event], "reason": one.reason, "ago_ms": one.ago_ms}
            for one in frame.failures
        ],
    }


def type_document(frame: Frame, type: str) -> dict[str, Any]:
    """A type for programs."""
    return {
        "counts": frame.counts.by_type[type],
        "oldest_ms": frame.look.waits_ms.get(type),
        "completed_per_sec": round(frame.rates.by_type[type], 1) if frame.rates else None,
    }


def running_document(frame: Frame, one: Underway) -> dict[str, Any]:
    """A task that runs, for programs."""
    task = frame.tasks.get(one.task)
    return {
        "id": one.task,
        "type": one.type,
        "state": one.state,
        "worker": one.worker,
        "for_ms": one.for_ms,
        "progress": task.progress if task else None,
    }
