"""Reasons, outcomes, and previous attempts in a payload."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import TypeAdapter, ValidationError

from rqueue.errors import ResultTimeout
from rqueue.task.attempt.outcome import (
    MOST_CHARS,
    REASONS,
    AttemptRecord,
    Lost,
    Reason,
    line_of,
    lines_of,
    reason_of,
    register,
    wants_history,
    with_history,
)
from rqueue.task.state import State
from tests.task.attempt.tracebacks import PYTHON_3_13


def a_validation_error() -> ValidationError:
    try:
        TypeAdapter(int).validate_python("x")
    except ValidationError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), Reason.TIMEOUT),
        (ResultTimeout("task_1", after=3), Reason.TIMEOUT),
        (PermissionError(), Reason.AUTH_FAILURE),
        (a_validation_error(), Reason.INVALID_OUTPUT),
        (asyncio.CancelledError(), Reason.CANCELLED),
        (MemoryError(), Reason.CRASH),
        (ValueError(), Reason.ERROR),
        (OSError(), Reason.ERROR),
        (KeyboardInterrupt(), Reason.ERROR),
    ],
)
def test_an_exception_has_the_reason_of_its_nearest_registered_class(
    error: BaseException, reason: Reason
) -> None:
    assert reason_of(error) is reason


def test_a_registered_exception_and_its_subclasses_have_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Quota(Exception):
        pass

    class DailyQuota(Quota):
        pass

    monkeypatch.setattr("rqueue.task.attempt.outcome.REASONS", dict(REASONS))
    register(Quota, Reason.RATE_LIMIT)

    assert reason_of(DailyQuota()) is Reason.RATE_LIMIT


@pytest.mark.parametrize(
    ("reason", "family"),
    [
        (Reason.HEARTBEAT_TIMEOUT, Reason.CRASH),
        (Reason.CLAIM_EXPIRED, Reason.CRASH),
        (Reason.WORKER_LOST, Reason.CRASH),
        (Reason.INCOMPLETE, Reason.INVALID_OUTPUT),
        (Reason.TIMEOUT, Reason.TIMEOUT),
        (Reason.ERROR, Reason.ERROR),
    ],
)
def test_every_reason_belongs_to_a_family(reason: Reason, family: Reason) -> None:
    assert reason.family is family
    assert family.family is family


def test_the_metric_label_of_an_exceeded_budget_is_budget() -> None:
    assert Reason.BUDGET_EXCEEDED.label == "budget"
    assert Reason.HEARTBEAT_TIMEOUT.label == "crash"


@pytest.mark.parametrize("state", [State.READY, State.COMPLETED, State.RETRYING])
def test_only_a_leased_task_can_be_lost(state: State) -> None:
    with pytest.raises(ValueError, match="no worker"):
        Lost(state)


def test_a_record_is_read_back_from_its_json() -> None:
    record = AttemptRecord.of(attempt=1, agent="a", reason="timeout", at="2026-02-08T09:00:00Z")

    assert AttemptRecord.model_validate_json(record.model_dump_json()) == record
    assert record.reason is Reason.TIMEOUT


FIRST = AttemptRecord(attempt=1, reason=Reason.INVALID_OUTPUT, error="regex: no", model="best")
SECOND = AttemptRecord(attempt=2, reason=Reason.TIMEOUT)


def test_a_line_contains_attempt_model_reason_and_error() -> None:
    assert lines_of([FIRST, SECOND]) == [
        "attempt 1 with best failed, invalid_output: regex: no",
        "attempt 2 failed, timeout",
    ]


def test_a_line_contains_only_the_exception_of_a_traceback() -> None:
    error = 'Traceback (most recent call last):\n  File "x.py"\nValueError: no'
    record = AttemptRecord(attempt=1, error=error)

    assert line_of(record) == "attempt 1 failed, error: ValueError: no"


def test_a_line_contains_only_the_first_line_of_the_exceptions_message() -> None:
    record = AttemptRecord(attempt=1, error=f"{PYTHON_3_13}\nask later")

    assert line_of(record).endswith("error: bank.wire.Refused: order 19 of 'edsger' is closed")


def test_a_line_contains_the_whole_text_of_an_error_without_traceback() -> None:
    record = AttemptRecord(attempt=1, error="Traceback: none\nwas kept")

    assert line_of(record) == "attempt 1 failed, error: Traceback: none\nwas kept"


def test_the_last_ten_attempts_are_listed_with_bounded_texts() -> None:
    records = [AttemptRecord(attempt=n, error="x" * 9000) for n in range(1, 30)]

    lines = lines_of(records)

    assert [line.split()[1] for line in lines] == [str(n) for n in range(20, 30)]
    assert all(len(line) < MOST_CHARS + 50 for line in lines)


@pytest.mark.parametrize(
    ("payload", "form", "wanted"),
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
def test_only_a_payload_with_a_context_field_receives_previous_attempts(
    payload: object, form: str, wanted: bool
) -> None:
    assert wants_history(payload, form) is wanted


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, "attempt 2 failed, timeout"),
        ({"previousAttempts": None}, "attempt 2 failed, timeout"),
        ({"previousAttempts": "by hand"}, "by hand\nattempt 2 failed, timeout"),
        ({"previousAttempts": ["by hand"]}, ["by hand", "attempt 2 failed, timeout"]),
    ],
)
def test_previous_attempts_follow_the_text_of_the_producer(
    written: dict[str, object], expected: object
) -> None:
    payload = {"goal": 1, "context": {"files": [], **written}}

    found = with_history(payload, [SECOND])

    assert found == {"goal": 1, "context": {"files": [], "previousAttempts": expected}}
    assert payload["context"] == {"files": [], **written}
