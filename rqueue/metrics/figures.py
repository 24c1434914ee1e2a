"""The metric values of one process as plain lists, cheap to count, to send to the supervisor and to
add up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from rqueue.metrics.catalogue import CATALOGUE

Labels = tuple[str, ...]
# counter, gauge: [value]; ratio: [part, whole]; histogram: [sum, then the count of each bucket].
Cell = list[float]
Cells = dict[str, dict[Labels, Cell]]

# Above this number of series, a metric counts in one series whose labels are OTHER.
MOST_SERIES = 200
OTHER = "other"


class Figures:
    """The values of some metrics. Counted in one thread and read in any."""

    def __init__(self) -> None:
        self.cells: Cells = {}

    def cell(self, name: str, *labels: str) -> Cell:
        """The cell of a metric with these labels, created at first use."""
        series = self.cells.setdefault(name, {})
        found = series.get(labels)
        if found is None:
            if len(series) >= MOST_SERIES:
                labels = (OTHER,) * len(labels)
            found = series.setdefault(labels, empty(name))
        return found

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Adds to a counter."""
        self.cell(name, *labels)[0] += by

    def put(self, name: str, *labels: str, value: float) -> None:
        """Sets a gauge."""
        self.cell(name, *labels)[0] = value

    def add_ratio(self, name: str, *labels: str, part: float, whole: float) -> None:
        """Adds to both sides of a ratio."""
        cell = self.cell(name, *labels)
        cell[:] = [cell[0] + part, cell[1] + whole]

    def observe(self, name: str, *labels: str, value: float) -> None:
        """Adds a value to a histogram."""
        tally(self.cell(name, *labels), CATALOGUE[name].bounds, value)

    def add(self, other: Cells) -> None:
        """Adds the cells of other figures."""
        for name, series in list(other.items()):
            for labels, cell in list(series.items()):
                mine = self.cell(name, *labels)
                mine[:] = [a + b for a, b in zip(mine, cell, strict=True)]


def tally(cell: Cell, bounds: tuple[float, ...], value: float) -> None:
    """Adds a value to the cell of a histogram."""
    cell[0] += value
    cell[1 + bisect_left(bounds, value)] += 1


def empty(name: str) -> Cell:
    """A cell with the value zero."""
    metric = CATALOGUE[name]
    match metric.kind:
        case "histogram":
            return [0.0] * (len(metric.bounds) + 2)
        case "ratio":
            return [0.0, 0.0]
        case _:
            return [0.0]


def lasting(cells: Cells) -> Cells:
    """The cells of metrics that are kept when the process has ended."""
    return {name: series for name, series in cells.items() if CATALOGUE[name].lasts}


def packed(cells: Cells) -> dict[str, list[Any]]:
    """The cells as JSON values."""
    # Copied in one step each: another thread may be counting.
    return {name: list(series.items()) for name, series in list(cells.items())}


def unpacked(found: Mapping[str, Iterable[Any]]) -> Cells:
    """The cells from `packed`; metrics of another release are dropped."""
    return {
        name: {tuple(labels): cell for labels, cell in series}
        for name, series in found.items()
        if name in CATALOGUE
    }
