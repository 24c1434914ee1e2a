"""Turns between limit keys: whose task is handed out next, and how much more often one may be."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from rqueue.model.checked import Label
from rqueue.model.limit import EACH, Limit

# Turns are counted in whole numbers, as scores are: cheap for the server, and exact for all weights
# up to ten.
TURN = 2_520_000
# How many keys one claim looks at: those that let nothing pass are looked at once.
MOST_KEYS = 1000
Weight = Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)]


class Turns(BaseModel):
    """Whether tasks with a key are handed out key by key in turns, over all lanes of a claim, and
    the keys that have more of them than one; where they are not, by priority alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    weights: dict[Label, Weight] = Field(default_factory=dict)


class Rules(NamedTuple):
    """What a queue's settings say of limits and turns, as of now."""

    limits: tuple[Limit, ...] = ()
    turns: Turns = Turns()


def step(weight: float) -> int:
    """How far one task moves a key of this weight."""
    return round(TURN / weight)


def key_rules(type: str, limits: tuple[Limit, ...], turns: Turns) -> dict[str, object]:
    """The rules for the keys of a lane as scripts read them. A key with a limit of its own has that
    instead of the one for each, of the same type or of the queue.
    """
    near = [limit for limit in limits if limit.key is not None and limit.bears_on(type)]
    each = {limit.type: limit.words() for limit in near if limit.key == EACH}
    named = dict.fromkeys(limit.key for limit in near if limit.key != EACH)
    own = {
        key: [*(each | {one.type: one.words() for one in near if one.key == key}).values()]
        for key in named
    }
    return {
        "fair": turns.enabled,
        "step": TURN,
        "steps": {key: step(weight) for key, weight in turns.weights.items()},
        "each": [*each.values()],
        "own": own,
        "most": MOST_KEYS,
    }
