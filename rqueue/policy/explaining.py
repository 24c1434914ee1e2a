"""What an effective priority is made of, by the score that a claim compares."""

from __future__ import annotations

from dataclasses import dataclass

from rqueue.model.lane import POINT
from rqueue.policy.priority import MINUTE_MS, deadline_boost, effective


@dataclass(frozen=True, slots=True)
class Written:
    """What is kept of a task's urgency: its score, its own priority and its path's boost, in
    points; and the instants that it depends on.
    """

    score: int
    base: float
    path_boost: float
    created_ms: int
    late_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """`effective = base - age_boost - deadline_boost - path_boost`, in points; lower is sooner.

    `slack_sec` is what is left until the deadline and the expected duration before it, None
    without one. Urgency by deadline is written by whole points: `deadline_boost` is what counts,
    `deadline_boost_now` what the formula gives.
    """

    base: float
    rate: float
    age_sec: float
    age_boost: float
    slack_sec: float | None
    deadline_boost: float
    deadline_boost_now: float
    path_boost: float
    effective: float


def terms_of(written: Written, rate: float, now_ms: int) -> Terms:
    """The terms, which add up to what a claim compares."""
    counts = effective(written.score / POINT, rate, now_ms)
    gained = written.base - written.path_boost - counts
    age_ms = now_ms - written.created_ms
    by_age = rate * age_ms / MINUTE_MS
    if written.late_ms is None:
        # A score that was written anew, as a debounce does, counts from then.
        age_ms = round(gained / rate * MINUTE_MS) if rate else age_ms
        by_age, slack_sec = gained, None
    else:
        slack_sec = (written.late_ms - now_ms) / 1000
    return Terms(
        base=written.base,
        rate=rate,
        age_sec=age_ms / 1000,
        age_boost=by_age,
        slack_sec=slack_sec,
        deadline_boost=gained - by_age,
        deadline_boost_now=0.0 if slack_sec is None else deadline_boost(slack_sec),
        path_boost=written.path_boost,
        effective=counts,
    )
