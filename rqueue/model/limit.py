"""Limits by configuration: how many tasks of a type, a key or a queue, in a time and at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rqueue.model.checked import Label, Name

DAY_SEC = 86_400
# In the scripts' words, what the limit of a whole queue stands before.
QUEUE = "*"
# The key of a limit that is for each key by itself.
EACH = "*"
Number = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Limit(BaseModel):
    """At most `rate` tasks begin within any `per_sec` seconds, and `at_once` are in hand at any
    moment; of one type, or of the whole queue where none is named. With a `key`, of the tasks that
    have this limit key; `*` is for each key by itself that has no limit of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    type: Name | None = None
    key: Literal["*"] | Label | None = None
    rate: Number | None = None
    per_sec: Annotated[float, Field(gt=0, le=DAY_SEC, allow_inf_nan=False)] = 1.0
    at_once: Number | None = None

    @model_validator(mode="after")
    def check_whole(self) -> Self:
        """One that limits nothing is a mistake."""
        if self.rate is None and self.at_once is None:
            raise ValueError("limits nothing: give rate, at_once or both")
        return self

    @property
    def what(self) -> str:
        """What it stands before, in the scripts' words."""
        return self.type or QUEUE

    def words(self) -> list[str | int]:
        """The limit as scripts read it; 0 is no limit."""
        return [self.what, self.rate or 0, max(1, round(self.per_sec * 1000)), self.at_once or 0]

    def bears_on(self, type: str) -> bool:
        """Whether it stands before tasks of a type."""
        return self.type in (None, type)


def doubled(limits: Sequence[Limit]) -> bool:
    """Whether two of them are for the same."""
    whats = [(limit.type, limit.key) for limit in limits]
    return len(set(whats)) < len(whats)
