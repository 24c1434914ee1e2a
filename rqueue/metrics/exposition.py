"""The Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from rqueue.metrics.catalogue import METRICS, Metric
from rqueue.metrics.figures import Cell, Cells, Labels, empty

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(cells: Cells) -> bytes:
    """The text of a scrape."""
    registry = CollectorRegistry()
    registry.register(CellCollector(cells))
    return generate_latest(registry)


class CellCollector(Collector):
    """The cells as a Prometheus collector."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def collect(self) -> Iterator[Family]:
        """All metrics that have a value, in the order of the catalogue."""
        for metric in METRICS:
            series = list(self.cells.get(metric.name, {}).items())
            if not series and metric.lasts and not metric.labels:
                # A counter without labels starts at zero.
                series = [((), empty(metric.name))]
            if series:
                yield family(metric, series)


def family(metric: Metric, series: list[tuple[Labels, Cell]]) -> Family:
    """One metric with all its series."""
    # The library adds the suffix of a counter's name.
    name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    found = Family(name, metric.meaning, prometheus_type(metric))
    for labels, cell in series:
        named = dict(zip(metric.labels, labels, strict=True))
        match metric.kind:
            case "histogram":
                add_histogram(found, metric, named, cell)
            case "ratio":
                found.add_sample(metric.name, named, cell[0] / cell[1] if cell[1] else 0.0)
            case _:
                found.add_sample(metric.name, named, cell[0])
    return found


def prometheus_type(metric: Metric) -> str:
    """The Prometheus type: a counter's name must end with _total."""
    if metric.kind == "counter" and not metric.name.endswith("_total"):
        return "gauge"
    return "gauge" if metric.kind == "ratio" else metric.kind


def add_histogram(found: Family, metric: Metric, named: dict[str, str], cell: Cell) -> None:
    """The samples of a histogram; buckets are cumulative."""
    total, *counts = cell
    bounds = [*(str(float(bound)) for bound in metric.bounds), "+Inf"]
    within = list(accumulate(counts))
    for bound, number in zip(bounds, within, strict=True):
        found.add_sample(f"{metric.name}_bucket", {**named, "le": bound}, number)
    found.add_sample(f"{metric.name}_count", named, within[-1])
    found.add_sample(f"{metric.name}_sum", named, total)
