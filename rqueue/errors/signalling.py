"""What a handler raises to say how its attempt ends."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import SupportsFloat

from rqueue.errors.root import RQueueError
from rqueue.errors.serving import ConfigError


class HandlerSignal(RQueueError):
    """Raised by a handler to say how its attempt ends."""


class Retry(HandlerSignal):
    """Try again, after the policy's delay or after `after`: seconds or a timedelta.

    Raises ConfigError, which then fails the attempt, where that is none, or the reason no text.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = "asked for by the handler"
    ) -> None:
        self.after = None if after is None else seconds_in(after)
        self.reason = text_in("Retry.reason", reason)
        super().__init__(self.after, reason)

    def __str__(self) -> str:
        return self.reason


class RateLimited(HandlerSignal):
    """The service that a handler calls wants to be asked more slowly: the task is set aside, no
    attempt is spent, and others of its type wait, too. `retry_after` is what the service says, in
    seconds or as a timedelta; without it, ever longer from a minute on.

    Raises ConfigError, which then fails the attempt, where that is none, or the reason no text.
    """

    def __init__(
        self, retry_after: float | timedelta | None = None, reason: str = "rate limit"
    ) -> None:
        given = "RateLimited.retry_after"
        self.retry_after = None if retry_after is None else seconds_in(retry_after, given)
        self.reason = text_in("RateLimited.reason", reason)
        super().__init__(self.retry_after, reason)

    def __str__(self) -> str:
        return self.reason


class Reject(HandlerSignal):
    """Never try again: the task goes to the dead letters.

    Raises ConfigError, which then fails the attempt, where the reason is no text.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = text_in("Reject.reason", reason)

    def __str__(self) -> str:
        return self.reason


def seconds_in(after: object, name: str = "Retry.after") -> float:
    """A time to wait, in seconds."""
    given = after.total_seconds() if isinstance(after, timedelta) else after
    try:
        seconds = float(given) if isinstance(given, SupportsFloat) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError(name, f"is seconds from 0 on or a timedelta, not {after!r:.100}")
    return seconds


def text_in(name: str, given: object) -> str:
    """What a handler gave for a text."""
    if not isinstance(given, str):
        raise ConfigError(name, f"is a text, not {type(given).__name__}")
    return given
