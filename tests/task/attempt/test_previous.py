"""What a task's payload receives about its failed attempts."""

from __future__ import annotations

import pytest

from rqueue.task.attempt.outcome import AttemptRecord, Reason
from rqueue.task.attempt.verdict import MOST_CHARS, line_of, lines_of, wants_history, with_history
from tests.task.attempt.tracebacks import PYTHON_3_13

FIRST = AttemptRecord(attempt=1, reason=Reason.INVALID_OUTPUT, error="regex: no", model="best")
SECOND = AttemptRecord(attempt=2, reason=Reason.TIMEOUT)


def test_a_line_says_what_was_tried_and_why_it_failed() -> None:
    assert lines_of([FIRST, SECOND]) == [
        "attempt 1 with best failed, invalid_output: regex: no",
        "attempt 2 failed, timeout",
    ]


def test_of_a_traceback_only_the_exception_is_included() -> None:
    error = 'Traceback (most recent call last):\n  File "x.py"\nValueError: no'
    record = AttemptRecord(attempt=1, error=error)

    assert line_of(record) == "attempt 1 failed, error: ValueError: no"


def test_of_its_message_the_first_line_is_included() -> None:
    record = AttemptRecord(attempt=1, error=f"{PYTHON_3_13}\nask later")

    assert line_of(record).endswith("error: bank.wire.Refused: order 19 of 'edsger' is closed")


def test_a_text_that_is_no_traceback_is_included_whole() -> None:
    record = AttemptRecord(attempt=1, error="Traceback: none\nwas kept")

    assert line_of(record) == "attempt 1 failed, error: Traceback: none\nwas kept"


def test_the_last_ten_are_included_with_bounded_texts() -> None:
    records = [AttemptRecord(attempt=n, error="x" * 9000) for n in range(1, 30)]

    lines = lines_of(records)

    assert [line.split()[1] for line in lines] == [str(n) for n in range(20, 30)]
    assert all(len(line) < MOST_CHARS + 50 for line in lines)


@pytest.mark.parametrize(
    ("payload", "form", "asked"),
    [
        ({"context": {"previousAttempts": ""}}, "native", True),
        ({"context": {}}, "native", False),
        ({"context": {}}, "A", True),
        ({"context": "text"}, "A", False),
        ({}, "A", False),
        (None, "A", False),
        (["context"], "A", False),
    ],
)
def test_payloads_with_a_place_for_them_receive_them(
    payload: object, form: str, asked: bool
) -> None:
    assert wants_history(payload, form) is asked


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({}, "attempt 2 failed, timeout"),
        ({"previousAttempts": None}, "attempt 2 failed, timeout"),
        ({"previousAttempts": "by hand"}, "by hand\nattempt 2 failed, timeout"),
        ({"previousAttempts": ["by hand"]}, ["by hand", "attempt 2 failed, timeout"]),
    ],
)
def test_they_stand_behind_what_the_producer_wrote(
    written: dict[str, object], told: object
) -> None:
    payload = {"goal": 1, "context": {"files": [], **written}}

    found = with_history(payload, [SECOND])

    assert found == {"goal": 1, "context": {"files": [], "previousAttempts": told}}
    assert payload["context"] == {"files": [], **written}
