"""What the next attempt is told of those that failed: what was tried, and why it failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.policy.headline import raised

if TYPE_CHECKING:
    from rqueue.model.attempt import AttemptRecord

# Where document A has it in a payload.
CONTEXT, FIELD = "context", "previousAttempts"
# Of many attempts the last are told, of each the beginning of what went wrong.
MOST_TOLD = 10
MOST_CHARS = 2000


def asks(payload: object, form: str) -> bool:
    """Whether a payload is to be given them: one with a `context` that has a place for them, and
    any with a `context` where tasks are written as document A has them.
    """
    context = payload.get(CONTEXT) if isinstance(payload, Mapping) else None
    return isinstance(context, Mapping) and (FIELD in context or form == "A")


def given(payload: Mapping[str, Any], history: Sequence[AttemptRecord]) -> dict[str, Any]:
    """The payload with them behind what its producer wrote there: a text, or a list of texts."""
    context, lines = payload[CONTEXT], lines_of(history)
    written = context.get(FIELD)
    if isinstance(written, list):
        told: Any = [*written, *lines]
    else:
        told = "\n".join([written, *lines] if isinstance(written, str) and written else lines)
    return {**payload, CONTEXT: {**context, FIELD: told}}


def lines_of(history: Sequence[AttemptRecord]) -> list[str]:
    """One text for each of the last attempts that failed, oldest first."""
    return [line_of(record) for record in history[-MOST_TOLD:]]


def line_of(record: AttemptRecord) -> str:
    """What was tried, and why it failed; of a traceback only what was raised."""
    by = f" with {record.model}" if record.model else ""
    error = record.error.strip()
    found = raised(error)
    if found is not None:
        error = found.line
    why = f": {error[:MOST_CHARS]}" if error else ""
    return f"attempt {record.attempt}{by} failed, {record.reason}{why}"
