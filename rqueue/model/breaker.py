"""Circuit breakers: when a type is given a rest, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from rqueue.model.checked import Name

if TYPE_CHECKING:
    from datetime import datetime

DAY_SEC = 86_400
Rest = Annotated[float, Field(gt=0, le=365 * DAY_SEC, allow_inf_nan=False)]


class BreakerState(StrEnum):
    """Whether tasks of a type are handed out: all, none, or one to see whether it works again."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class BreakerRule(BaseModel):
    """When the breaker of a type opens and when it is tried. Document A's names are understood."""

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
    """The rules of a queue's types: the defaults, and what some types have of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    defaults: BreakerRule = BreakerRule()
    overrides: dict[Name, BreakerRule] = Field(default_factory=dict)

    def of(self, type: str) -> BreakerRule:
        """The rule of a type; what its own does not say, the defaults do."""
        own = self.overrides.get(type)
        if own is None:
            return self.defaults
        said = {field: getattr(own, field) for field in own.model_fields_set}
        return self.defaults.model_copy(update=said)


NO_BREAKER = BreakerRule(enabled=False)
NO_BREAKERS = Breakers(defaults=NO_BREAKER)


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker of a type as it stands: how many attempts in a row have failed, and of one that
    is not closed since when, until when, and the task that it is tried with.
    """

    type: str
    state: BreakerState
    failures: int = 0
    last_failure: datetime | None = None
    opened_at: datetime | None = None
    half_open_at: datetime | None = None
    probe: str | None = None
