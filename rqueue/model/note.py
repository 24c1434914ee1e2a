"""What a running task says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.errors import InvalidTask
from rqueue.model.checked import LABEL, LABEL_RULE

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Note:
    """One thing a task says; what is not given is not changed. `model` is what the cost is for."""

    progress: JsonValue = None
    checkpoint: JsonValue = None
    line: str = ""
    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    extend_sec: float = 0.0
    model: str = ""


def model_of(given: str | None) -> str:
    """A model as a note names it, "" for none; raises InvalidTask where it is no label."""
    if given is None:
        return ""
    if not isinstance(given, str) or LABEL.fullmatch(given) is None:
        raise InvalidTask("model", LABEL_RULE)
    return given
