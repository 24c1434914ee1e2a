"""Limits by configuration: how many tasks of a type, a tenant or a queue may start in a
time span and run at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rqueue.task.fields import Label, Name

DAY_SEC = 86_400
# The scope of a limit of the whole queue, as moves read it.
QUEUE = "*"
# The `key` of a limit that applies to each tenant by itself.
EACH = "*"
Number = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Limit(BaseModel):
    """At most `rate` tasks start within any `per_sec` seconds, and `at_once` are leased at any
    moment; of one type, or of the whole queue without a type. With a `key`, of one tenant; `*`
    applies to each tenant by itself that has no limit of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    type: Name | None = None
    key: Literal["*"] | Label | None = None
    rate: Number | None = None
    per_sec: Annotated[float, Field(gt=0, le=DAY_SEC, allow_inf_nan=False)] = 1.0
    at_once: Number | None = None

    @model_validator(mode="after")
    def check_whole(self) -> Self:
        """A limit without rate and at_once is a mistake."""
        if self.rate is None and self.at_once is None:
            raise ValueError("limits nothing: give rate, at_once or both")
        return self

    @property
    def scope(self) -> str:
        """Its scope, as moves read it."""
        return self.type or QUEUE

    def words(self) -> list[str | int]:
        """The limit as moves read it; 0 is no limit."""
        return [self.scope, self.rate or 0, max(1, round(self.per_sec * 1000)), self.at_once or 0]

    def applies_to(self, type: str) -> bool:
        """Whether it applies to tasks of a type."""
        return self.type in (None, type)


def has_duplicates(limits: Sequence[Limit]) -> bool:
    """Whether two limits have the same scope."""
    scopes = [(limit.type, limit.key) for limit in limits]
    return len(set(scopes)) < len(scopes)


# Virtual time is counted in whole numbers, as scores are: cheap for the server, and exact for all
# weights up to ten.
TURN = 2_520_000
# How many tenants one claim checks; a tenant without a free task is checked once.
MAX_TENANTS = 1000
Weight = Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)]


class Turns(BaseModel):
    """Whether tenants get turns over all lanes of a claim, or go by priority only; and the weights
    of tenants that get more turns than one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    weights: dict[Label, Weight] = Field(default_factory=dict)


class Rules(NamedTuple):
    """The current limits and turns of a queue."""

    limits: tuple[Limit, ...] = ()
    turns: Turns = Turns()


def step(weight: float) -> int:
    """By how much one task advances the virtual time of a tenant with this weight."""
    return round(TURN / weight)


def tenant_rules(type: str, limits: tuple[Limit, ...], turns: Turns) -> dict[str, object]:
    """The rules for the tenants of a lane as moves read them. A tenant's own limit replaces the one
    for each tenant, of the same type or of the queue.
    """
    applicable = [limit for limit in limits if limit.key is not None and limit.applies_to(type)]
    each = {limit.type: limit.words() for limit in applicable if limit.key == EACH}
    named = dict.fromkeys(limit.key for limit in applicable if limit.key != EACH)
    own = {
        key: [*(each | {one.type: one.words() for one in applicable if one.key == key}).values()]
        for key in named
    }
    return {
        "fair": turns.enabled,
        "step": TURN,
        "steps": {key: step(weight) for key, weight in turns.weights.items()},
        "each": [*each.values()],
        "own": own,
        "most": MAX_TENANTS,
    }
