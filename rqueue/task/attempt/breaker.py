"""Circuit breakers: when the tasks of a type cannot be claimed, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from rqueue.task.attempt.outcome import Reason
from rqueue.task.fields import Name

if TYPE_CHECKING:
    from datetime import datetime


DAY_SEC = 86_400
Rest = Annotated[float, Field(gt=0, le=365 * DAY_SEC, allow_inf_nan=False)]


class BreakerState(StrEnum):
    """Which tasks of a type can be claimed: all, none, or one as a probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class BreakerRule(BaseModel):
    """When the breaker of a type opens and when it is probed. Document A's field names
    are accepted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    failure_threshold: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        5, validation_alias=AliasChoices("failure_threshold", "failureThreshold")
    )
    half_open_after_sec: Rest = Field(
        60, validation_alias=AliasChoices("half_open_after_sec", "halfOpenAfter")
    )
    cooldown_sec: Rest = Field(
        300, validation_alias=AliasChoices("cooldown_sec", "cooldownSeconds")
    )
    count: Literal["attempt", "dead_letter"] = "attempt"


class Breakers(BaseModel):
    """The rules of a queue's types: the defaults, and overrides by type."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    defaults: BreakerRule = BreakerRule()
    overrides: dict[Name, BreakerRule] = Field(default_factory=dict)

    def of(self, type: str) -> BreakerRule:
        """The rule of a type; unset fields of its override are the defaults."""
        own = self.overrides.get(type)
        if own is None:
            return self.defaults
        given = {field: getattr(own, field) for field in own.model_fields_set}
        return self.defaults.model_copy(update=given)


NO_BREAKER = BreakerRule(enabled=False)
NO_BREAKERS = Breakers(defaults=NO_BREAKER)


@dataclass(frozen=True, slots=True)
class Breaker:
    """The current breaker of a type: how many attempts in a row have failed; if it is not closed,
    since when, until when, and its probe.
    """

    type: str
    state: BreakerState
    failures: int = 0
    last_failure: datetime | None = None
    opened_at: datetime | None = None
    half_open_at: datetime | None = None
    probe: str | None = None


# Reasons that do not count: the task was cancelled, never began, exceeded a budget, or was rate
# limited by a healthy service.
UNCOUNTED = frozenset(
    {Reason.CANCELLED, Reason.BUDGET_EXCEEDED, Reason.CLAIM_EXPIRED, Reason.RATE_LIMIT}
)


def breaker_words(rule: BreakerRule, reason: Reason, *, dead: bool) -> str:
    """What a failure reports to the breaker, as moves read it: "" for nothing, else how many
    failures in a row open it, for how long, and for how long after a failed probe. Where only
    `dead` failures count, others count as a failed probe only: a service that is down must not be
    probed by one task after another.
    """
    if not rule.enabled or reason in UNCOUNTED:
        return ""
    half_open_ms, cooldown_ms = ms(rule.half_open_after_sec), ms(rule.cooldown_sec)
    if rule.count == "dead_letter" and not dead:
        return f"probe {cooldown_ms}"
    return f"{rule.failure_threshold} {half_open_ms} {cooldown_ms}"


def ms(seconds: float) -> int:
    """Seconds in ms."""
    return round(seconds * 1000)
