"""The one place that asks the machine for the time; everything else is handed a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What tells the time. Tests pass one that they move by hand."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...

    def now_ms(self) -> int:
        """The present instant in milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step back; only differences mean something."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return datetime.now(UTC)

    def now_ms(self) -> int:
        """The present instant in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never step back; only differences mean something."""
        return time.monotonic()


SYSTEM: Clock = SystemClock()
