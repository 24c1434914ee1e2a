"""Checks the arguments that callers give beside a task, before anything is sent.

A broken rule raises InvalidTask with the field and the rule, as for a task's own fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from rqueue.core.counts import pause_scope
from rqueue.errors import InvalidTask
from rqueue.task.fields import (
    LABEL,
    LABEL_RULE,
    NAME,
    NAME_RULE,
    PRINCIPAL,
    PRINCIPAL_RULE,
    ROLES,
    Role,
    instant,
    within_a_year,
)
from rqueue.task.lane import Offer
from rqueue.task.schema import first_line, is_installed, schema_validator
from rqueue.task.state import State

if TYPE_CHECKING:
    from datetime import datetime


MAX_REASON = 1000
MOST_USD = 1_000_000
# What Postgres or UTF-8 cannot hold.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
Word = TypeVar("Word", bound=str)


class Offered(TypedDict, total=False):
    """What a worker offers; by default the types that have handlers, and any model."""

    types: Iterable[str] | None
    capabilities: Iterable[str]
    agents: Iterable[str]
    models: Iterable[str]


def reason_of(given: object) -> str:
    """A reason given by a user: short text that every store can hold."""
    if not isinstance(given, str):
        raise InvalidTask("reason", "is text")
    if len(given) > MAX_REASON:
        raise InvalidTask("reason", f"has {len(given)} characters; {MAX_REASON} are allowed")
    if UNSTORABLE.search(given):
        raise InvalidTask("reason", "contains a NUL character or a lone surrogate")
    return given


def name_of(field: str, given: object) -> str:
    """A name, such as a type's."""
    if not isinstance(given, str) or NAME.fullmatch(given) is None:
        raise InvalidTask(field, NAME_RULE)
    return given


def label_of(field: str, given: object) -> str:
    """A label, such as a tag or a worker's name."""
    if not isinstance(given, str) or LABEL.fullmatch(given) is None:
        raise InvalidTask(field, LABEL_RULE)
    return given


def principal_of(field: str, given: object) -> str:
    """A principal, as `kind:name`."""
    if not isinstance(given, str) or PRINCIPAL.fullmatch(given) is None:
        raise InvalidTask(field, PRINCIPAL_RULE)
    return given


def role_of(given: object) -> Role:
    """A role, by its name."""
    for role in ROLES:
        if given == role:
            return role
    raise InvalidTask("role", f"is one of {', '.join(ROLES)}")


def names_of(field: str, given: Iterable[str]) -> list[str]:
    """Several names; a single text is refused, it would be read letter by letter."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidTask(field, "is a list of names")
    return [name_of(field, name) for name in given]


def labels_of(field: str, given: Iterable[str]) -> list[str]:
    """Several labels, such as the names of models."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidTask(field, "is a list of labels")
    return [label_of(field, label) for label in given]


def offer_of(
    types: Iterable[str] | None,
    capabilities: Iterable[str],
    agents: Iterable[str],
    models: Iterable[str] = (),
) -> Offer:
    """A worker's offer, checked."""
    return Offer.of(
        None if types is None else names_of("types", types),
        names_of("capabilities", capabilities),
        names_of("agents", agents),
        labels_of("models", models),
    )


def worker_offer(given: Offered, handlers: Iterable[str]) -> Offer:
    """The offer of a worker with these handlers."""
    unknown = sorted(given.keys() - Offered.__annotations__.keys())
    if unknown:
        raise TypeError(f"worker() got an unexpected keyword argument {unknown[0]!r}")
    types = given.get("types")
    return offer_of(
        handlers if types is None else types,
        given.get("capabilities", ()),
        given.get("agents", ()),
        given.get("models", ()),
    )


def number_of(field: str, given: object, *, most: int) -> int:
    """A count from 1 to `most`."""
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise InvalidTask(field, f"is a whole number from 1 to {most}")
    return given


def seconds_of(field: str, given: object) -> float:
    """A span of time from nothing to a year."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidTask(field, "is a number of seconds")
    within_a_year(field, given)
    return given


def usd_of(field: str, given: object) -> float | None:
    """A sum of money up to a million dollars, or None."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= MOST_USD:
        raise InvalidTask(field, f"is a number of dollars from 0 to {MOST_USD}")
    return float(given)


def instant_of(field: str, given: object) -> datetime:
    """An aware datetime, or its ISO 8601 text, as the fields of a task take it."""
    try:
        return instant(given)
    except PydanticCustomError as error:
        raise InvalidTask(field, error.message()) from None


def word_of(field: str, given: str, known: Iterable[Word]) -> Word:
    """One of the known words, or InvalidTask."""
    words = tuple(known)
    for word in words:
        if word == given:
            return word
    raise InvalidTask(field, f"{given!r} is not one of {', '.join(words)}")


def states_of(given: Iterable[State | str]) -> frozenset[State]:
    """The states of these names."""
    names = (given,) if isinstance(given, str) else given
    return frozenset(word_of("states", name, State) for name in names)


def pause_scope_of(type: str | None, lane: int | None) -> str:
    """What a pause is for: the queue, a type or a lane."""
    if type is not None and lane is not None:
        raise InvalidTask("lane", "is given with type; give one of them")
    if lane is not None and (isinstance(lane, bool) or not isinstance(lane, int)):
        raise InvalidTask("lane", "is the number of a lane")
    return pause_scope(None if type is None else name_of("type", type), lane)


def slowdown_target(type: str | None, key: str | None) -> dict[str, str]:
    """What a slow-down is for: a type, or a tenant."""
    if (type is None) == (key is None):
        raise InvalidTask("key", "is given instead of type; give one of them")
    return {"key": label_of("key", key)} if type is None else {"type": name_of("type", type)}


def check_schema(schema: Any, field: str = "validation_schema") -> None:
    """Raises InvalidTask for a value that is no JSON Schema, or refers outside itself."""
    if not is_installed():
        return
    try:
        schema_validator(schema)
    except ValueError as error:
        raise InvalidTask(field, f"is no JSON Schema: {first_line(error)}") from None
