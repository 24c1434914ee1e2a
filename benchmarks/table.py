"""The rows of the result tables, with their targets, and the tables as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from statistics import median

HEAD = ["", "rqueue", "baseline", "unit", "ratio", "target", ""]
Pairs = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: our figure, the baseline's figure, their ratio, and the target if there is one."""

    what: str
    unit: str
    ours: float
    baseline: float | None
    target: str
    ratio: float
    met: bool

    def cells(self) -> list[str]:
        baseline = "" if self.baseline is None else f"{self.baseline:,.1f}"
        result = "" if not self.target else "met" if self.met else "MISSED"
        return [self.what, f"{self.ours:,.1f}", baseline, self.unit, f"{self.ratio:.2f}",
                self.target, result]  # fmt: skip


def at_most(what: str, unit: str, pairs: Pairs, limit: float = inf) -> Row:
    """A row whose ratio must not exceed a limit, if there is one: medians of alternating runs."""
    ours, baseline, ratio = medians(pairs)
    target = "" if limit == inf else f"<= {limit:g}"
    return Row(what, unit, ours, baseline, target, ratio, ratio <= limit)


def at_least(what: str, unit: str, pairs: Pairs, limit: float) -> Row:
    """A row whose ratio must reach a limit: medians of alternating runs."""
    ours, baseline, ratio = medians(pairs)
    return Row(what, unit, ours, baseline, f">= {limit:g}", ratio, ratio >= limit)


def medians(pairs: Pairs) -> tuple[float, float, float]:
    """The medians of both sides, and of the ratio within each run."""
    return (
        median(ours for ours, _ in pairs),
        median(baseline for _, baseline in pairs),
        median(ours / baseline for ours, baseline in pairs),
    )


def table(title: str, rows: list[Row]) -> str:
    """The rows as a Markdown table under a heading."""
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"### {title}\n\n{body}\n"
