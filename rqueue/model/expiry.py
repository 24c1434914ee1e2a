"""`expires`: the short name for a deadline after which a task is not worth running."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from rqueue.errors import InvalidTask
from rqueue.model.checked import YEAR_SEC, instant

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT, FIELD = "expires", "expires_sec"
# What it stands for: given with it, one of the two would be overruled in silence.
MEANT = ("deadline", "on_deadline")
RULE = "is a number of seconds, a timedelta, or an instant with its zone"
SPAN: TypeAdapter[timedelta] = TypeAdapter(timedelta)


def written_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with `expires` as what it means: an instant is the deadline of a task that is
    cancelled then, a span of time (seconds, a timedelta, its ISO 8601 text) is counted when the
    task is sent.
    """
    found = dict(fields)
    given = found.pop(SHORT, None)
    if given is None:
        return found
    for other in (FIELD, *MEANT):
        if found.get(other) is not None:
            raise InvalidTask(SHORT, f"is given with {other}, which it says too; give one of them")
    span = span_of(given)
    if span is not None:
        return {**found, FIELD: span}
    try:
        return {**found, "deadline": instant(given), "on_deadline": "cancel"}
    except PydanticCustomError:
        raise InvalidTask(SHORT, RULE) from None


def span_of(given: object) -> float | None:
    """A span of time in seconds; None where it is none, and so perhaps an instant."""
    if isinstance(given, str) and given.startswith("P"):
        try:
            given = SPAN.validate_python(given)
        except ValidationError:
            raise InvalidTask(SHORT, "is not a span of time in ISO 8601, such as PT15M") from None
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    if not 0 < given <= YEAR_SEC:
        raise InvalidTask(SHORT, "is more than 0 seconds and at most a year")
    return float(given)
