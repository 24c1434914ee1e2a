"""Whether a failed attempt speaks against its type, and what it says to the breaker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.model.attempt import Reason

if TYPE_CHECKING:
    from rqueue.model.breaker import BreakerRule

# What says nothing of the service behind a type: the task was taken back, was never begun, was not
# paid, or the service is well and wants to be asked more slowly.
UNCOUNTED = frozenset(
    {Reason.CANCELLED, Reason.BUDGET_EXCEEDED, Reason.CLAIM_EXPIRED, Reason.RATE_LIMIT}
)


def speaks(rule: BreakerRule, reason: Reason, *, dead: bool) -> bool:
    """Whether a failure counts; `dead` where no other attempt follows it."""
    if not rule.enabled or reason in UNCOUNTED:
        return False
    return rule.count == "attempt" or dead


def told(rule: BreakerRule, reason: Reason, *, dead: bool) -> str:
    """What a failure says to the breaker, as scripts read it: "" for nothing, else how many in a
    row open it, for how long, and for how long a failed probe does.
    """
    if not speaks(rule, reason, dead=dead):
        return ""
    half_open_ms, cooldown_ms = ms(rule.half_open_after_sec), ms(rule.cooldown_sec)
    return f"{rule.failure_threshold} {half_open_ms} {cooldown_ms}"


def ms(seconds: float) -> int:
    """Seconds as the server counts."""
    return round(seconds * 1000)
