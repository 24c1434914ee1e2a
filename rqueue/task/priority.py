"""Priorities in three scales, tiers, and the terms of the effective priority.

Native is document B's: 0 to 100, lower is more urgent. A writes 1 to 10 with 10 the most urgent, C
writes 0 to 3 with 0 the most urgent.
"""

from __future__ import annotations

from enum import StrEnum
from math import exp
from typing import Literal

from rqueue.errors import InvalidTask

Scale = Literal["native", "1-10", "0-3"]
DEFAULT_PRIORITY = 50.0
HIGHEST, LOWEST = 0.0, 100.0
STEPS: dict[Scale, dict[int, float]] = {
    "1-10": {a: (10 - a) * 10.0 for a in range(1, 11)},
    "0-3": {0: 0.0, 1: 20.0, 2: 45.0, 3: 70.0},
}


class Tier(StrEnum):
    """The five classes of urgency, for display and metrics; the order is by number."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    BACKGROUND = "background"


BOUNDS = ((10.0, Tier.CRITICAL), (30.0, Tier.HIGH), (60.0, Tier.NORMAL), (80.0, Tier.LOW))


def tier(effective: float) -> Tier:
    """The tier of an effective priority, which may lie outside 0 to 100."""
    for bound, found in BOUNDS:
        if effective < bound:
            return found
    return Tier.BACKGROUND


def to_native(value: object, scale: str = "native", *, field: str = "priority") -> float:
    """The native priority of a value of this scale; raises InvalidTask."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTask(field, "is a number")
    if scale == "native":
        if not HIGHEST <= value <= LOWEST:
            raise InvalidTask(field, "is from 0 (most urgent) to 100")
        return float(value)
    steps = steps_of(scale)
    if value not in steps:
        raise InvalidTask(field, f"is a whole number of the scale {scale}")
    return steps[int(value)]


def from_native(native: float, scale: str = "native") -> float | int:
    """The value of this scale nearest to a native priority; of two, the more urgent."""
    if scale == "native":
        return native
    steps = steps_of(scale)
    return min(steps, key=lambda value: (abs(steps[value] - native), steps[value]))


def check_scale(scale: str) -> None:
    """Raises InvalidTask where there is no scale of this name."""
    if scale != "native":
        steps_of(scale)


def steps_of(scale: str) -> dict[int, float]:
    """The values of a scale, each with its native priority."""
    for name, steps in STEPS.items():
        if name == scale:
            return steps
    raise InvalidTask("scale", f"is one of native, {', '.join(STEPS)}")


__all__ = [
    "Scale",
    "Tier",
    "deadline_boost",
    "dependency_boost",
    "effective",
    "from_native",
    "score",
    "tier",
    "to_native",
]
MINUTE_MS = 60_000
DEADLINE_BOOST = 50.0
DEADLINE_TAU_SEC = 1800.0
PATH_BOOST = 10.0


def score(base: float, rate: float, created_ms: int, boost: float = 0.0) -> float:
    """The stored score of a task with this creation time and rate; lower is claimed first."""
    return base - boost + rate * created_ms / MINUTE_MS


def effective(written: float, rate: float, now_ms: int) -> float:
    """The effective priority of a stored score now; it may be below 0."""
    return written - rate * now_ms / MINUTE_MS


def deadline_boost(
    slack_sec: float, dmax: float = DEADLINE_BOOST, tau_sec: float = DEADLINE_TAU_SEC
) -> float:
    """The urgency of a deadline; slack is deadline - now - expected duration. Past the
    deadline it is `dmax`.
    """
    return dmax * exp(-max(0.0, slack_sec) / tau_sec)


def dependency_boost(
    remaining_of_task: float, remaining_of_dag: float, weight: float = PATH_BOOST
) -> float:
    """The urgency of the critical path: the task's longest remaining path as a share of the DAG's.

    Paths are counted in tasks, so a DAG with a single remaining task has no boost: 0.
    """
    if remaining_of_dag <= 1:
        return 0.0
    return weight * remaining_of_task / remaining_of_dag
