"""What was measured, as Markdown, and its place in docs/performance.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Literal, TypeVar

from benchmarks.peers.measures import LOST_SEC, Dispatch, Drained, Recovery
from benchmarks.peers.roster import OURS, RAW, SHAPES

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
HEADING = "## Beside other task queues\n\n`make bench-peers` writes what stands here."
# The default lease, and five seconds.
RECOVERED_SEC = 35
Cells = list[str]
Sign = Literal[">=", "<=", "<"]
T = TypeVar("T")


@dataclass(slots=True)
class Findings:
    """Everything one run of the harness found, by peer."""

    server: str = "7"
    versions: dict[str, str] = field(default_factory=dict)
    drained: dict[str, dict[str, Drained]] = field(default_factory=dict)
    dispatch: dict[str, Dispatch] = field(default_factory=dict)
    recovery: dict[str, Recovery] = field(default_factory=dict)


def markdown(found: Findings) -> str:
    """All tables, then how they compare with what is to be reached."""
    parts = [conditions(found)]
    parts += [drained_table(name, rows) for name, rows in found.drained.items() if rows]
    if found.dispatch:
        parts.append(dispatch_table(found.dispatch))
    if found.recovery:
        parts.append(recovery_table(found.recovery))
    lines = verdicts(found)
    if lines:
        parts.append("### To reach\n\n" + table(["", "found", "to reach", ""], lines))
    return "\n\n".join(parts) + "\n"


def conditions(found: Findings) -> str:
    """Where and with what this was measured."""
    named = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    python = platform.python_version()
    return f"Python {python}, {os.cpu_count()} cores, Redis {found.server} on TCP; {named}."


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


def verdicts(found: Findings) -> list[Cells]:
    """Ours against the best of the others and against the raw loop, where both were measured."""
    lines: list[Cells] = []
    for shape, factor in (("1x10", 6), ("2x5", 4)):
        rows = found.drained.get(shape, {})
        if OURS in rows and (others := rivals(rows)):
            rate = rows[OURS].rate / max(row.rate for row in others.values())
            cost = total_us(rows[OURS]) / min(total_us(row) for row in others.values())
            lines.append(verdict(f"rate, {shape}, of the best peer's", rate, ">=", factor))
            lines.append(verdict(f"Redis CPU, {shape}, of the best peer's", cost, "<", 1))
    rows = found.drained.get("1x100", {})
    if OURS in rows and RAW in rows:
        rate = rows[OURS].rate / rows[RAW].rate
        lines.append(verdict("rate, 1x100, of the raw loop's", rate, ">=", 0.35))
    lines += dispatch_verdicts(found.dispatch)
    if ours := found.recovery.get(OURS):
        seconds = inf if ours.lost else ours.seconds
        lines.append(verdict("seconds to all done after kill -9", seconds, "<=", RECOVERED_SEC))
    return lines


def dispatch_verdicts(rows: Mapping[str, Dispatch]) -> list[Cells]:
    lines: list[Cells] = []
    ours, others = rows.get(OURS), rivals(rows)
    if ours and others:
        p50 = ours.p50_ms / min(row.p50_ms for row in others.values())
        p99 = ours.p99_ms / min(row.p99_ms for row in others.values())
        lines.append(verdict("dispatch p50, of the best peer's", p50, "<", 1))
        lines.append(verdict("dispatch p99, of the best peer's", p99, "<", 1))
    if ours and RAW in rows:
        part = ours.p50_ms / rows[RAW].p50_ms
        lines.append(verdict("dispatch p50, of the raw read's", part, "<=", 1.5))
    return lines


def rivals(rows: Mapping[str, T]) -> dict[str, T]:
    return {name: row for name, row in rows.items() if name not in {OURS, RAW}}


def total_us(row: Drained) -> float:
    return row.redis_enqueue_us + row.redis_work_us


def verdict(what: str, found: float, sign: Sign, target: float) -> Cells:
    """One line: what was found and what it has to be."""
    reached = {">=": found >= target, "<=": found <= target, "<": found < target}[sign]
    return [what, f"{found:.2f}", f"{sign} {target:g}", "reached" if reached else "MISSED"]


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
