"""Slow-downs: types and limit keys whose service wants to be asked less often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Slowdown:
    """One of a type, or else of a limit key: nothing of it is handed out `until` then, while it is
    `resting`, and ever more of it until all is at `over_at`.
    """

    type: str | None
    key: str | None
    resting: bool
    until: datetime
    over_at: datetime
