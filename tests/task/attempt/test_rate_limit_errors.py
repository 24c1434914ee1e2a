"""Rate limit errors, and how long to wait then."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan
from random import Random
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.task.attempt.classify import is_limited, park_sec, requested_wait, slow_sec, wait_for
from rqueue.task.fields import YEAR_SEC

NOW = datetime(2026, 2, 8, 9, 0, tzinfo=UTC)


class HttpError(Exception):
    """An error as HTTP clients raise it: with a response, or with its parts."""

    def __init__(self, text: str = "", **parts: Any) -> None:
        super().__init__(text)
        vars(self).update(parts)


def response(status: int, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(status_code=status, headers=named)


class WithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached", "rate_limit_error", "HTTP 429", "Error code: 429 - busy",
        "Too Many Requests", "QUOTA EXCEEDED for today", "see Retry-After",
    ],
)  # fmt: skip
def test_the_text_of_a_rate_limit_is_recognised(text: str) -> None:
    assert is_limited(RuntimeError(text))


@pytest.mark.parametrize("text", ["", "order 4290 is broken", "not found", "limit", "1429"])
def test_other_texts_are_not_taken_for_a_rate_limit(text: str) -> None:
    assert not is_limited(RuntimeError(text))


@pytest.mark.parametrize(
    "error",
    [
        HttpError(response=response(429)),
        HttpError(status=429, headers={}),
        HttpError(response=SimpleNamespace(status=429)),
    ],
    ids=["httpx and requests", "aiohttp", "others"],
)
def test_status_429_is_a_rate_limit(error: Exception) -> None:
    assert is_limited(error)
    assert not is_limited(HttpError(response=response(500)))


def test_an_error_whose_text_cannot_be_read_is_not_a_rate_limit() -> None:
    assert not is_limited(WithoutText())
    assert requested_wait(WithoutText(), NOW) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Sun, 08 Feb 2026 09:02:00 GMT", 120.0),
        ("Sun, 08 Feb 2026 08:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("99999999999", 365 * 86_400.0),
    ],
)
def test_a_header_gives_seconds_or_a_date(header: str, seconds: float | None) -> None:
    for error in (
        HttpError(response=response(429, Retry_After=header)),
        HttpError(status=429, headers={"retry-after": header}),
    ):
        assert requested_wait(error, NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Retry-After: 30", 30.0),
        ("rate limit, retry after 2.5 seconds", 2.5),
        ("Please try again in 20s", 20.0),
        ("try again in 300ms", 0.3),
        ("try again in 2 min", 120.0),
        ("Please try again in 6m0s. Visit ...", 360.0),
        ("Please try again in 17m16.8s", 1036.8),
        ("try again in 1h2m3s", 3723.0),
        ("try again in 2 minutes", 120.0),
        ("retry after 1 hour", 3600.0),
        ("Try again in 1 Hour and 30 Minutes.", 5400.0),
        ("try again in 2 days, 1 hr", 176_400.0),
        ("Please retry in 26.5s", 26.5),
        ("retry_after': 1.5", 1.5),
        ("try again in 250 milliseconds", 0.25),
        ("try again in 1s500ms", 1.5),
        ("try again in 20s, 1 day at most", 20.0),
        ("retry after 30. 429 is what it says", 30.0),
        ("retry after 30 requests", 30.0),
        ("try again in 5 m 10", 300.0),
        ("retry after 2026-02-08T09:02:00Z", None),
        ("try again in 09:30", None),
        ("retry after " + "9" * 400, None),
        ("retry after " + "9" * 300 + " days", 365 * 86_400.0),
        ("too many requests", None),
    ],
)
def test_a_text_gives_the_seconds_that_it_contains(text: str, seconds: float | None) -> None:
    assert requested_wait(RuntimeError(text), NOW) == seconds


@given(
    st.text(alphabet="0123456789.,:-/ \tsmhdyan", max_size=80),
    st.sampled_from(["retry after ", "Try again in ", "Retry-After: ", "retry_in "]),
)
def test_a_wait_from_a_text_is_between_0_and_a_year(rest: str, prefix: str) -> None:
    wait = requested_wait(RuntimeError(f"{prefix}{rest}"), NOW)

    assert wait is None or 0 <= wait <= 365 * 86_400


@given(st.integers(0, 500), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59_999))
def test_a_time_in_parts_is_their_sum(days: int, hours: int, minutes: int, ms: int) -> None:
    message = f"try again in {days}d{hours}h{minutes}m{ms / 1000:.3f}s."

    wait = requested_wait(RuntimeError(message), NOW)

    whole = days * 86_400 + hours * 3600 + minutes * 60 + ms / 1000
    assert wait == pytest.approx(min(whole, 365 * 86_400))


@pytest.mark.parametrize("piece", ["retry after 1", "1 ", "9" * 8, "1.", "1, ", "1d", "9s and "])
def test_a_malicious_text_is_parsed_in_a_short_time(piece: str) -> None:
    text = "retry after 1" + piece * 500

    began = process_time()
    requested_wait(RuntimeError(text + "-9"), NOW)

    assert process_time() - began < 0.1


def test_without_a_requested_time_the_wait_doubles_up_to_an_hour() -> None:
    waits = [wait_for(parks, Random(1)) for parks in range(9)]

    for parks, wait in enumerate(waits):
        whole = min(60.0 * 2**parks, 3600.0)
        assert whole <= wait <= whole * 1.1


def test_other_tasks_of_the_type_wait_for_half_of_the_time() -> None:
    assert slow_sec(60, 3600) == 30


def test_other_tasks_wait_at_most_for_the_queues_maximum() -> None:
    assert slow_sec(86_400, 3600) == 3600


@pytest.mark.parametrize(
    ("requested", "seconds"),
    [(90.0, 90.0), (0.0, 0.0), (-1.0, 0.0), (1e308, YEAR_SEC), (1.8e9, YEAR_SEC), (nan, 0.0)],
)
def test_a_task_is_parked_for_the_requested_time_up_to_a_year(
    requested: float, seconds: float
) -> None:
    assert park_sec(requested, 3, Random(1)) == seconds


def test_without_a_requested_time_the_delay_depends_on_the_number_of_parks() -> None:
    assert park_sec(None, 3, Random(1)) == wait_for(3, Random(1))
