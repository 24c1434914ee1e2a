"""When the urgency of a deadline has moved far enough to be written again."""

from __future__ import annotations

from math import log

from rqueue.policy.priority import DEADLINE_BOOST, DEADLINE_TAU_SEC, deadline_boost

# Earlier than this before its deadline (and its expected duration) a task gains less than a point.
HORIZON_SEC = DEADLINE_TAU_SEC * log(DEADLINE_BOOST)
POINT = 1.0
# The least that is written. The instant of a whole point is found by a logarithm: what that is off
# by must not make it the next point's.
LEAST = 1e-6


def has_moved(boost: float, written: float) -> bool:
    """Whether the urgency is a point more than what was written last."""
    return boost - written >= POINT - LEAST


def moves_in_sec(slack_sec: float, written: float | None = None) -> float | None:
    """How long until the urgency is a point more than what was written, or than it is at this
    slack; None when it is all there.
    """
    if slack_sec <= 0:
        return None
    wanted = (deadline_boost(slack_sec) if written is None else written) + POINT
    if wanted >= DEADLINE_BOOST:
        return slack_sec
    return max(0.0, slack_sec - DEADLINE_TAU_SEC * log(DEADLINE_BOOST / wanted))
