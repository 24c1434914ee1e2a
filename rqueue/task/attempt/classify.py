"""Classifies an exception of a handler: a cancel, an outside cause, a rate limit, its reason, and
what a log line may contain of it.
"""

from __future__ import annotations

import asyncio
import math
import re
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rqueue.errors import HandlerSignal, RateLimited
from rqueue.task.attempt.error_text import MAX_DEPTH, causes_of, grouped, reachable
from rqueue.task.attempt.outcome import Reason, reason_of
from rqueue.task.fields import YEAR_SEC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random


# How many of the innermost frames are logged.
FRAMES = 5
# Connection errors that are no OSError, by class name: of httpx, aiohttp, redis, database drivers,
# clients of language models, and the artifact store.
OUTSIDE = frozenset(
    {
        "APIConnectionError",
        "ArtifactsUnavailable",
        "ClientConnectionError",
        "ConnectionError",
        "InterfaceError",
        "OperationalError",
        "TimeoutError",
        "TransportError",
    }
)
SERVER_ERROR = 500
# The precedence of reasons in a group: first those that another attempt would have again, then
# those that are more specific than `error`. A cancel beside an error is its consequence.
FIRST = (
    Reason.BUDGET_EXCEEDED,
    Reason.RATE_LIMIT,
    Reason.AUTH_FAILURE,
    Reason.CRASH,
    Reason.TIMEOUT,
    Reason.INVALID_OUTPUT,
    Reason.ERROR,
    Reason.CANCELLED,
)


def is_cancelled() -> bool:
    """Whether the running task itself was cancelled, not something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_current(task: asyncio.Task[Any] | None) -> bool:
    """Whether this task is the current one; a coroutine that was discarded is closed elsewhere."""
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:
        return False


def is_outside(error: BaseException, depth: int = 0) -> bool:
    """Whether an error, or its cause, is of something a handler depends on: the operating system, a
    connection, or a failing service. Such an error is not the task's fault.
    """
    if isinstance(error, BaseExceptionGroup):
        return depth < MAX_DEPTH and all(is_outside(one, depth + 1) for one in error.exceptions)
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, OSError) or names & OUTSIDE or (status_of(error) or 0) >= SERVER_ERROR:
        return True
    cause = error.__cause__
    return cause is not None and depth < MAX_DEPTH and is_outside(cause, depth + 1)


def reason_in(raised: Sequence[BaseException]) -> Reason:
    """The reason of an error, or of a group with all its errors (see `group_members`)."""
    reasons = [
        reason
        for one in raised
        if (reason := reason_of(one)) is not Reason.ERROR or not grouped(one)
    ]
    return min(reasons, key=lambda reason: FIRST.index(reason.family), default=Reason.ERROR)


def log_fields(error: BaseException) -> dict[str, str]:
    """The class of an exception and where it was raised, innermost last; never its text, which may
    contain a payload.
    """
    kind = type(error)
    name = kind.__qualname__
    raised = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    frames = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    found = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-FRAMES:]]
    return {"raised": raised, "where": " > ".join(found)}


# Texts of rate limit errors of any class; a number within a longer one does not match.
LIMIT_TEXT = re.compile(
    r"rate.?limit|\b429\b|too many requests|quota exceeded|retry-after", re.IGNORECASE
)
# Where a time follows in such a text: "Retry-After: 30", "retry after 1.5 seconds", "try again in".
TIME_FOLLOWS = re.compile(
    r"(?:retry[-_ ](?:after|in)|try again (?:in|after))\D{0,3}(?=\d)", re.IGNORECASE
)
# A part of a time: "20s", "300ms", "2 minutes", or "6m" and "0s" of "6m0s"; a date is none of
# these. Atomic groups avoid quadratic backtracking.
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
# How much of an error's text is searched: it may be megabytes.
MAX_SEARCHED = 4096


def is_limited(error: BaseException) -> bool:
    """Whether an error, one in its group, or its cause is a rate limit."""
    return any(map(is_rate_limit, reachable(error, unexplained)))


def requested_wait(error: BaseException, now: datetime) -> float | None:
    """The wait that the services request, in seconds: the longest of the rate limit errors, else
    the longest of all; None without any.
    """
    every = reachable(error, unexplained)
    refusing = longest(wait_of(one, now) for one in every if is_rate_limit(one))
    return longest(wait_of(one, now) for one in every) if refusing is None else refusing


def longest(waits: Iterable[object]) -> float | None:
    """The longest of the numbers; a signal's value may have been changed to something else."""
    return max((wait for wait in waits if isinstance(wait, int | float)), default=None)


def unexplained(error: BaseException) -> tuple[BaseException, ...]:
    """The causes of an error that has no classification of its own."""
    explained = isinstance(error, HandlerSignal) or reason_of(error) is not Reason.ERROR
    return () if explained else causes_of(error)


def is_rate_limit(error: BaseException) -> bool:
    """Whether this error itself is a rate limit; one with another meaning is not."""
    if isinstance(error, HandlerSignal) or reason_of(error) is not Reason.ERROR:
        return isinstance(error, RateLimited)
    return status_of(error) == TOO_MANY or LIMIT_TEXT.search(text_of(error)) is not None


def wait_of(error: BaseException, now: datetime) -> float | None:
    """The wait that this error itself requests."""
    if isinstance(error, HandlerSignal):
        return error.retry_after if isinstance(error, RateLimited) else None
    header = header_of(error)
    if header is not None:
        return seconds_in(header, now)
    return wait_in_text(text_of(error))


def wait_in_text(text: str) -> float | None:
    """The wait that a text requests, in seconds: a number, or parts with units in falling order."""
    follows = TIME_FOLLOWS.search(text)
    part = PART.match(text, follows.end()) if follows else None
    if part is None:
        return None
    unit = unit_of(part[2])
    total = float(part[1]) * (unit or 1.0)
    # Only smaller units continue a time: in "20s, 1 day at most" the day is another time.
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
    """A wait limited to 0 to a year; None where it is not finite."""
    return min(max(0.0, seconds), float(YEAR_SEC)) if math.isfinite(seconds) else None


def wait_for(parks: int, random: Random) -> float:
    """The delay of a parked task without a requested wait, after so many parks."""
    wait = min(BASE_SEC * 2.0 ** min(parks, 20), LONGEST_SEC)
    return wait + random.uniform(0.0, JITTER * wait)


def park_sec(requested_sec: float | None, parks: int, random: Random) -> float:
    """The delay of a parked task: the requested one, at most a year; else growing with
    each park.
    """
    if requested_sec is None:
        return wait_for(parks, random)
    # In this order NaN, which a handler may compute, gives 0.
    return min(max(0.0, requested_sec), float(YEAR_SEC))


def slow_sec(wait_sec: float, most_sec: float) -> float:
    """For how long other tasks of the type wait: half the task's own delay, and at most the queue's
    maximum: one response, or a mistake in one, must not stop a whole fleet for a day.
    """
    return min(wait_sec / 2, most_sec)


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an error of httpx, requests or aiohttp, if it has one."""
    for holder in (getattr(error, "response", None), error):
        for name in ("status_code", "status"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


def header_of(error: BaseException) -> str | None:
    """The Retry-After header of an error's response."""
    for holder in (getattr(error, "response", None), error):
        headers: Any = getattr(holder, "headers", None)
        if hasattr(headers, "get"):
            found = headers.get("Retry-After") or headers.get("retry-after")
            if isinstance(found, str):
                return found
    return None


def seconds_in(header: str, now: datetime) -> float | None:
    """The seconds of a Retry-After header: a number, or an HTTP date."""
    try:
        found = float(header)
    except ValueError:
        found = until(header, now)
    return bounded(found)


def until(date: str, now: datetime) -> float:
    """The seconds until an HTTP date; not finite where it is none."""
    # Imports the parser of e-mails; most services answer with a number.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        at = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - now).total_seconds()


def text_of(error: BaseException) -> str:
    """An error's text, "" where it cannot be converted."""
    try:
        return str(error)[:MAX_SEARCHED]
    except BaseException:
        # An exception's own __str__ may raise anything.
        return ""
