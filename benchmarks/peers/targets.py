"""The targets, and whether they were met."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Literal, TypeVar

from benchmarks.peers.catalogue import OURS, RAW
from benchmarks.peers.idle import IDLE

if TYPE_CHECKING:
    from benchmarks.peers.measures import Dispatch, Drained
    from benchmarks.peers.results import Results

RATES = {"1x10": 6, "2x5": 4}
RAW_SHARES = {"1x100": 0.35}
# The default lease, and five seconds.
RECOVERED_SEC = 35
IDLE_PERCENT = 5
Cells = list[str]
Sign = Literal[">=", "<=", "<"]
T = TypeVar("T")


def target_lines(found: Results) -> list[Cells]:
    """rqueue compared with the best peer and with the raw loop, where both were measured."""
    lines: list[Cells] = []
    for shape, rows in found.drained.items():
        lines += backlog_targets(shape, rows)
    lines += dispatch_targets(found.dispatch)
    if IDLE in found.idle:
        share = found.idle[IDLE].redis
        lines.append(target_line(f"Redis, % of a core, {IDLE}", share, "<", IDLE_PERCENT))
    if ours := found.recovery.get(OURS):
        seconds = inf if ours.lost else ours.seconds
        lines.append(
            target_line(
                "seconds until all tasks are done after kill -9", seconds, "<=", RECOVERED_SEC
            )
        )
    return lines


def backlog_targets(shape: str, rows: Mapping[str, Drained]) -> list[Cells]:
    """The rate and the server time of one shape."""
    lines: list[Cells] = []
    ours, others = rows.get(OURS), peers_in(rows)
    if ours and others and shape in RATES:
        rate = ours.rate / max(row.rate for row in others.values())
        lines.append(
            target_line(f"rate, {shape}, relative to the best peer", rate, ">=", RATES[shape])
        )
    if ours and others:
        cost = total_us(ours) / min(total_us(row) for row in others.values())
        lines.append(target_line(f"Redis CPU, {shape}, relative to the best peer", cost, "<", 1))
    if ours and RAW in rows and shape in RAW_SHARES:
        share = ours.rate / rows[RAW].rate
        what = f"rate, {shape}, relative to the raw loop"
        lines.append(target_line(what, share, ">=", RAW_SHARES[shape]))
    return lines


def dispatch_targets(rows: Mapping[str, Dispatch]) -> list[Cells]:
    """The delay until an idle worker starts a task."""
    lines: list[Cells] = []
    ours, others = rows.get(OURS), peers_in(rows)
    if ours and others:
        p50 = ours.p50_ms / min(row.p50_ms for row in others.values())
        p99 = ours.p99_ms / min(row.p99_ms for row in others.values())
        lines.append(target_line("dispatch p50, relative to the best peer", p50, "<", 1))
        lines.append(target_line("dispatch p99, relative to the best peer", p99, "<", 1))
    if ours and RAW in rows:
        part = ours.p50_ms / rows[RAW].p50_ms
        lines.append(target_line("dispatch p50, relative to the raw loop", part, "<=", 1.5))
    return lines


def peers_in(rows: Mapping[str, T]) -> dict[str, T]:
    return {name: row for name, row in rows.items() if name not in {OURS, RAW}}


def total_us(row: Drained) -> float:
    return row.redis_enqueue_us + row.redis_work_us


def target_line(what: str, found: float, sign: Sign, target: float) -> Cells:
    """One line: the measured value, the target, and whether it was met."""
    met = {">=": found >= target, "<=": found <= target, "<": found < target}[sign]
    return [what, f"{found:.2f}", f"{sign} {target:g}", "met" if met else "MISSED"]
