"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime.fromtimestamp(0, UTC)


class ManualClock:
    """Shows the time it was set to."""

    def __init__(self, now: datetime) -> None:
        self.ms = ms_of(now)

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return instant_of(self.ms)

    def now_ms(self) -> int:
        """The present instant in milliseconds since 1970."""
        return self.ms

    def monotonic(self) -> float:
        """The same time in seconds: it is never moved back."""
        return self.ms / 1000


def ms_of(at: datetime) -> int:
    """An instant in milliseconds since 1970."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def instant_of(ms: int) -> datetime:
    """The instant of so many milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=ms)
