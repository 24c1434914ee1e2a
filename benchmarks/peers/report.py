"""The results as Markdown, and their place in docs/performance.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.peers.catalogue import SHAPES
from benchmarks.peers.measures import LOST_SEC, Dispatch, Drained, Recovery
from benchmarks.peers.results import FULL, Results, Size
from benchmarks.peers.targets import Cells, target_lines

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.growth import Growth
    from benchmarks.peers.idle import IdleCost

BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
HEADING = "## Compared with other task queues\n\nWritten by `make bench-peers`."


def markdown(found: Results) -> str:
    """All tables, then the targets."""
    parts = [conditions(found)]
    parts += [drained_table(name, rows) for name, rows in found.drained.items() if rows]
    if found.dispatch:
        parts.append(dispatch_table(found.dispatch))
    if found.recovery:
        parts.append(recovery_table(found.recovery))
    if found.idle:
        parts.append(idle_table(found.idle))
    if found.growth:
        parts.append(growth_table(found.growth))
    lines = target_lines(found)
    if lines:
        parts.append("### Targets\n\n" + table(["", "measured", "target", ""], lines))
    return "\n\n".join(parts) + "\n"


def conditions(found: Results) -> str:
    """The machine, the releases and the size of the run."""
    named = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    python, cores = platform.python_version(), os.cpu_count()
    where = f"Python {python}, {cores} cores, Redis {found.server} on TCP; {named}."
    return f"{size_line(found.size)}\n\n{where}"


def size_line(size: Size) -> str:
    """The number of runs and tasks."""
    runs = "One run of each" if size.runs == 1 else f"Median of {size.runs} runs"
    less = size.runs < FULL.runs or size.tasks < FULL.tasks
    head = "**A quick run: its figures vary more than those of a full run.** " if less else ""
    return f"{head}{runs}; {size.tasks:,} tasks for a peer with share 1."


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
    return f"### Workers killed with kill -9\n\n{table(['', 'all done after, s'], body)}"


def idle_table(rows: Mapping[str, IdleCost]) -> str:
    body = [[what, f"{row.redis:.1f}", f"{row.workers:.1f}"] for what, row in rows.items()]
    head = ["% of a core", "Redis", "workers"]
    return f"### While no task starts or ends, rqueue\n\n{table(head, body)}"


def growth_table(rows: Sequence[Growth]) -> str:
    head = ["", "tasks/s", "", "Redis us/task", "", "worker us/task", ""]
    body = [
        [row.what,
         *with_ratio(row.grown.rate, row.plain.rate),
         *with_ratio(row.grown.redis_us, row.plain.redis_us),
         *with_ratio(row.grown.worker_us, row.plain.worker_us)]
        for row in rows
    ]  # fmt: skip
    note = "Each figure is followed by its ratio to that of the plain run."
    return f"### Growth of the cost, rqueue\n\n{note}\n\n{table(head, body)}"


def with_ratio(grown: float, plain: float) -> Cells:
    return [whole(grown), f"{grown / plain:.2f}"]


def whole(number: float) -> str:
    return f"{number:,.0f}"


def table(head: Cells, body: Iterable[Cells]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(page: Path, text: str) -> None:
    """Writes the text between a page's markers; a page without markers gets them at its end."""
    old = page.read_text("utf-8")
    block = f"{BEGIN}\n{text.strip()}\n{END}"
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        page.write_text(f"{before}{block}{after}", "utf-8")
    elif BEGIN in old or END in old:
        raise ValueError(f"{page}: it has one of the two markers; it must have both or none")
    else:
        page.write_text(f"{old.rstrip()}\n\n{HEADING}\n\n{block}\n", "utf-8")
