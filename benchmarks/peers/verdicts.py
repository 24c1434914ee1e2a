"""What is to be reached, and whether it was."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Literal, TypeVar

from benchmarks.peers.rest import IDLE
from benchmarks.peers.roster import OURS, RAW

if TYPE_CHECKING:
    from benchmarks.peers.findings import Findings
    from benchmarks.peers.measures import Dispatch, Drained

RATES = {"1x10": 6, "2x5": 4}
RAW_SHARES = {"1x100": 0.35}
# The default lease, and five seconds.
RECOVERED_SEC = 35
IDLE_PERCENT = 5
Cells = list[str]
Sign = Literal[">=", "<=", "<"]
T = TypeVar("T")


def verdicts(found: Findings) -> list[Cells]:
    """Ours against the best of the others and against the raw loop, where both were measured."""
    lines: list[Cells] = []
    for shape, rows in found.drained.items():
        lines += drained_verdicts(shape, rows)
    lines += dispatch_verdicts(found.dispatch)
    if IDLE in found.rest:
        share = found.rest[IDLE].redis
        lines.append(verdict(f"Redis, % of a core, {IDLE}", share, "<", IDLE_PERCENT))
    if ours := found.recovery.get(OURS):
        seconds = inf if ours.lost else ours.seconds
        lines.append(verdict("seconds to all done after kill -9", seconds, "<=", RECOVERED_SEC))
    return lines


def drained_verdicts(shape: str, rows: Mapping[str, Drained]) -> list[Cells]:
    """The rate and the server's part of one shape."""
    lines: list[Cells] = []
    ours, others = rows.get(OURS), rivals(rows)
    if ours and others and shape in RATES:
        rate = ours.rate / max(row.rate for row in others.values())
        lines.append(verdict(f"rate, {shape}, of the best peer's", rate, ">=", RATES[shape]))
    if ours and others:
        cost = total_us(ours) / min(total_us(row) for row in others.values())
        lines.append(verdict(f"Redis CPU, {shape}, of the best peer's", cost, "<", 1))
    if ours and RAW in rows and shape in RAW_SHARES:
        share = ours.rate / rows[RAW].rate
        lines.append(verdict(f"rate, {shape}, of the raw loop's", share, ">=", RAW_SHARES[shape]))
    return lines


def dispatch_verdicts(rows: Mapping[str, Dispatch]) -> list[Cells]:
    """The way to an idle worker."""
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
