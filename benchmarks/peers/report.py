"""What was measured, as Markdown, and its place in docs/performance.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.peers.findings import FULL, Findings, Size
from benchmarks.peers.measures import LOST_SEC, Dispatch, Drained, Recovery
from benchmarks.peers.roster import SHAPES
from benchmarks.peers.verdicts import Cells, verdicts

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.growth import Growth
    from benchmarks.peers.rest import Rest

BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
HEADING = "## Beside other task queues\n\n`make bench-peers` writes what stands here."


def markdown(found: Findings) -> str:
    """All tables, then how they compare with what is to be reached."""
    parts = [conditions(found)]
    parts += [drained_table(name, rows) for name, rows in found.drained.items() if rows]
    if found.dispatch:
        parts.append(dispatch_table(found.dispatch))
    if found.recovery:
        parts.append(recovery_table(found.recovery))
    if found.rest:
        parts.append(rest_table(found.rest))
    if found.growth:
        parts.append(growth_table(found.growth))
    lines = verdicts(found)
    if lines:
        parts.append("### To reach\n\n" + table(["", "found", "to reach", ""], lines))
    return "\n\n".join(parts) + "\n"


def conditions(found: Findings) -> str:
    """Where, with what and how often this was measured."""
    named = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    python, cores = platform.python_version(), os.cpu_count()
    where = f"Python {python}, {cores} cores, Redis {found.server} on TCP; {named}."
    return f"{weight(found.size)}\n\n{where}"


def weight(size: Size) -> str:
    """How much a run of this size says."""
    runs = "one run of each" if size.runs == 1 else f"the median of {size.runs} runs"
    less = size.runs < FULL.runs or size.tasks < FULL.tasks
    head = "**A quick run: the figures move more than those of a full one.** " if less else ""
    return f"{head}Shown is {runs}; {size.tasks:,} tasks for a peer of middling rate."


def drained_table(shape: str, rows: Mapping[str, Drained]) -> str:
    head = ["", "tasks/s", "enqueue/s", "Redis us/task: enqueue", "work", "worker us/task", "tasks"]
    body = [
        [name, whole(row.rate), whole(row.enqueue_rate), f"{row.redis_enqueue_us:.0f}",
         f"{row.redis_work_us:.0f}", f"{row.worker_us:.0f}", whole(row.tasks)]
        for name, row in sorted(rows.items(), key=lambda item: -item[1].rate)
    ]  # fmt: skip
    return f"### No-ops, {SHAPES[shape].title}\n\n{table(head, body)}"


def dispatch_table(rows: Mapping[str, Dispatch]) -> str:
    body = [
        [name, f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}"]
        for name, row in sorted(rows.items(), key=lambda item: item[1].p50_ms)
    ]
    return f"### Enqueue to start, idle worker\n\n{table(['', 'p50 ms', 'p99 ms'], body)}"


def recovery_table(rows: Mapping[str, Recovery]) -> str:
    ranked = sorted(rows.items(), key=lambda item: (item[1].lost, item[1].seconds))
    body = [
        [name, f"{row.lost} not done after {LOST_SEC:.0f} s" if row.lost else f"{row.seconds:.0f}"]
        for name, row in ranked
    ]
    return f"### Killed with -9 at work\n\n{table(['', 'all done after, s'], body)}"


def rest_table(rows: Mapping[str, Rest]) -> str:
    body = [[what, f"{row.redis:.1f}", f"{row.workers:.1f}"] for what, row in rows.items()]
    head = ["% of a core", "Redis", "workers"]
    return f"### While nothing starts or ends, rqueue\n\n{table(head, body)}"


def growth_table(rows: Sequence[Growth]) -> str:
    head = ["", "tasks/s", "", "Redis us/task", "", "worker us/task", ""]
    body = [
        [row.what,
         *beside(row.grown.rate, row.plain.rate),
         *beside(row.grown.redis_us, row.plain.redis_us),
         *beside(row.grown.worker_us, row.plain.worker_us)]
        for row in rows
    ]  # fmt: skip
    told = "Behind each figure: its ratio to that of the plain run."
    return f"### What the cost grows with, rqueue\n\n{told}\n\n{table(head, body)}"


def beside(grown: float, plain: float) -> Cells:
    return [whole(grown), f"{grown / plain:.2f}"]


def whole(number: float) -> str:
    return f"{number:,.0f}"


def table(head: Cells, body: Iterable[Cells]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(page: Path, text: str) -> None:
    """Puts the text between the page's markers; a page without them gets them at its end."""
    old = page.read_text("utf-8")
    block = f"{BEGIN}\n{text.strip()}\n{END}"
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        page.write_text(f"{before}{block}{after}", "utf-8")
    elif BEGIN in old or END in old:
        raise ValueError(f"{page}: one of the two markers is missing; put both or none")
    else:
        page.write_text(f"{old.rstrip()}\n\n{HEADING}\n\n{block}\n", "utf-8")
