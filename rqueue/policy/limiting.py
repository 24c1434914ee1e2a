"""Whether a failure is a service's wish to be asked more slowly, and how long to wait then."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from rqueue.errors import HandlerSignal, RateLimited
from rqueue.model.attempt import Reason, reason_of
from rqueue.model.checked import YEAR_SEC
from rqueue.policy.behind import behind, reached

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

# What errors of limited services say, whatever their kind; a number within another is not meant.
SAID = re.compile(
    r"rate.?limit|\b429\b|too many requests|quota exceeded|retry-after", re.IGNORECASE
)
# Where a time stands in such a text: "Retry-After: 30", "retry after 1.5 seconds", "try again in".
TIME_FOLLOWS = re.compile(
    r"(?:retry[-_ ](?:after|in)|try again (?:in|after))\D{0,3}(?=\d)", re.IGNORECASE
)
# A part of it: "20s", "300ms", "2 minutes", or "6m" and "0s" of "6m0s"; a date is none of these.
# What was read of a number is not tried again shorter: that would take the square of its length.
PART = re.compile(
    r"((?>\d+(?:\.\d+)?))(?![-/:.\d]*\d)\s*"
    r"(?:(ms|milli(?:second)?s?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z]))?"
    r"(?:,?\s*and\b|,)?\s*",
    re.IGNORECASE,
)
# By the first letter of a unit; that of milliseconds is none of their own.
UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
TOO_MANY = 429
BASE_SEC, LONGEST_SEC, JITTER = 60.0, 3600.0, 0.1
# Of an error's text, as much is looked at: it may be megabytes.
LOOKED_AT = 4096


def is_limited(error: BaseException) -> bool:
    """Whether an error is a service's refusal because it was asked too often, or has one in its
    group, or was raised from one.
    """
    return any(map(refuses, reached(error, unexplained)))


def wait_asked(error: BaseException, now: datetime) -> float | None:
    """How long the services say to wait, in seconds: the longest of what those say that refuse,
    else of what is said at all; None where nobody says anything.
    """
    every = reached(error, unexplained)
    refusing = longest(wait_of(one, now) for one in every if refuses(one))
    return longest(wait_of(one, now) for one in every) if refusing is None else refusing


def longest(waits: Iterable[object]) -> float | None:
    """The longest of what is a number: a signal's may have been changed behind its back."""
    return max((wait for wait in waits if isinstance(wait, int | float)), default=None)


def unexplained(error: BaseException) -> tuple[BaseException, ...]:
    """What is looked at behind an error: nothing where it says itself what it means."""
    explained = isinstance(error, HandlerSignal) or reason_of(error) is not Reason.ERROR
    return () if explained else behind(error)


def refuses(error: BaseException) -> bool:
    """Whether this error itself is such a refusal; one that means something else is none."""
    if isinstance(error, HandlerSignal) or reason_of(error) is not Reason.ERROR:
        return isinstance(error, RateLimited)
    return status_of(error) == TOO_MANY or SAID.search(text_of(error)) is not None


def wait_of(error: BaseException, now: datetime) -> float | None:
    """How long this error itself says to wait."""
    if isinstance(error, HandlerSignal):
        return error.retry_after if isinstance(error, RateLimited) else None
    header = header_of(error)
    if header is not None:
        return seconds_in(header, now)
    return time_said(text_of(error))


def time_said(text: str) -> float | None:
    """The seconds that a text asks to wait: a number, or parts with units, the largest first."""
    follows = TIME_FOLLOWS.search(text)
    part = PART.match(text, follows.end()) if follows else None
    if part is None:
        return None
    unit = unit_of(part[2])
    total = float(part[1]) * (unit or 1.0)
    # Only smaller units go on with it: in "20s, 1 day at most" the day is another time.
    while unit and (part := PART.match(text, part.end())) and 0 < unit_of(part[2]) < unit:
        unit = unit_of(part[2])
        total += float(part[1]) * unit
    return bounded(total)


def unit_of(word: str | None) -> float:
    """The seconds of a unit; 0 where there is none."""
    if not word:
        return 0.0
    name = word.lower()
    return 0.001 if name.startswith(("ms", "mil")) else UNITS[name[0]]


def bounded(seconds: float) -> float | None:
    """A time that others wrote, as one that can be waited for; None where it is no number."""
    return min(max(0.0, seconds), float(YEAR_SEC)) if math.isfinite(seconds) else None


def wait_for(parks: int, random: Random) -> float:
    """How long a task is set aside that nobody gave a time, after so many times before."""
    wait = min(BASE_SEC * 2.0 ** min(parks, 20), LONGEST_SEC)
    return wait + random.uniform(0.0, JITTER * wait)


def park_sec(asked: float | None, parks: int, random: Random) -> float:
    """How long a task is set aside: as was asked for, but at most a year; else ever longer."""
    # In this order NaN, which a handler may compute, means at once.
    return wait_for(parks, random) if asked is None else min(max(0.0, asked), float(YEAR_SEC))


def slow_sec(wait_sec: float, most_sec: float) -> float:
    """For how long the others of its type wait: half of what the task itself does, and not longer
    than the queue allows: one answer, or a mistake in one, must not stop a whole fleet for a day.
    """
    return min(wait_sec / 2, most_sec)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error of httpx, requests or aiohttp carries, if it does."""
    for holder in (getattr(error, "response", None), error):
        for name in ("status_code", "status"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


def header_of(error: BaseException) -> str | None:
    """The Retry-After that came with it."""
    for holder in (getattr(error, "response", None), error):
        headers: Any = getattr(holder, "headers", None)
        if hasattr(headers, "get"):
            found = headers.get("Retry-After") or headers.get("retry-after")
            if isinstance(found, str):
                return found
    return None


def seconds_in(header: str, now: datetime) -> float | None:
    """The seconds that a Retry-After means: a number of them, or an HTTP date."""
    try:
        found = float(header)
    except ValueError:
        found = until(header, now)
    return bounded(found)


def until(date: str, now: datetime) -> float:
    """The seconds until an HTTP date; not finite where it is none."""
    try:
        at = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - now).total_seconds()


def text_of(error: BaseException) -> str:
    """What an error says of itself; one that cannot say anything says nothing."""
    try:
        return str(error)[:LOOKED_AT]
    except BaseException:
        # An exception's own __str__ may raise anything.
        return ""
