"""What a running task says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Note:
    """One thing a task says; what is not given is not changed."""

    progress: JsonValue = None
    checkpoint: JsonValue = None
    line: str = ""
    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    extend_sec: float = 0.0
