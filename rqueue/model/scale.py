"""The three ways to write a priority, and the tiers they fall into.

Native is document B's: 0 to 100, lower is more urgent. A writes 1 to 10 with 10 the most urgent,
C writes 0 to 3 with 0 the most urgent.
"""

from __future__ import annotations

from enum import StrEnum
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
    """The five classes of urgency, for people and metrics; the order is by number."""

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
    """The native priority that a value of this scale means, or InvalidTask."""
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
