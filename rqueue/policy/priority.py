"""Effective priority: lower runs first, and waiting makes lower.

`base - rate * age - boosts`. For one ageing rate the order between two tasks never changes, so a
score is written once, at submit, and the present is subtracted when lanes are compared.
"""

from __future__ import annotations

from math import exp

from rqueue.model.scale import Scale, Tier, from_native, tier, to_native

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
    """What is written for a task of this age and rate; lower is claimed first."""
    return base - boost + rate * created_ms / MINUTE_MS


def effective(written: float, rate: float, now_ms: int) -> float:
    """The priority that a written score means now; it may lie below 0."""
    return written - rate * now_ms / MINUTE_MS


def deadline_boost(
    slack_sec: float, dmax: float = DEADLINE_BOOST, tau_sec: float = DEADLINE_TAU_SEC
) -> float:
    """The urgency of a deadline; slack is deadline - now - expected duration. Late is `dmax`."""
    return dmax * exp(-max(0.0, slack_sec) / tau_sec)


def dependency_boost(
    remaining_of_task: float, remaining_of_dag: float, weight: float = PATH_BOOST
) -> float:
    """The urgency of the critical path: the task's longest remaining path as a share of the DAG's.

    Paths are counted in tasks, so a DAG with a single task left has nothing to gain: 0.
    """
    if remaining_of_dag <= 1:
        return 0.0
    return weight * remaining_of_task / remaining_of_dag
