"""When the urgency of a deadline has moved far enough to be written again."""

from __future__ import annotations

from math import log

from rqueue.policy.priority import DEADLINE_BOOST, DEADLINE_TAU_SEC, deadline_boost

# Earlier than this before its deadline (and its expected duration) a task gains less than a point.
HORIZON_SEC = DEADLINE_TAU_SEC * log(DEADLINE_BOOST)
POINT = 1.0


def moves_in_sec(slack_sec: float) -> float | None:
    """How long until the urgency is a point more than at this slack; None when it is all there."""
    if slack_sec <= 0:
        return None
    wanted = deadline_boost(slack_sec) + POINT
    if wanted >= DEADLINE_BOOST:
        return slack_sec
    return slack_sec - DEADLINE_TAU_SEC * log(DEADLINE_BOOST / wanted)
