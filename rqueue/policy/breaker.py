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


def told(rule: BreakerRule, reason: Reason, *, dead: bool) -> str:
    """What a failure says to the breaker, as scripts read it: "" for nothing, else how many in a
    row open it, for how long, and for how long a failed probe does. Where only the `dead` count,
    whom no other attempt follows, any other speaks as a probe alone: what tries a service that is
    down must not be one task after the other.
    """
    if not rule.enabled or reason in UNCOUNTED:
        return ""
    half_open_ms, cooldown_ms = ms(rule.half_open_after_sec), ms(rule.cooldown_sec)
    if rule.count == "dead_letter" and not dead:
        return f"probe {cooldown_ms}"
    return f"{rule.failure_threshold} {half_open_ms} {cooldown_ms}"


def ms(seconds: float) -> int:
    """Seconds as the server counts."""
    return round(seconds * 1000)
