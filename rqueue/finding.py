"""A finding of a check: its level, what was found, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check: what was checked, what was found, and what to do about it."""

    level: Level
    what: str
    found: str
    advice: str = ""
