"""Reasons and outcomes."""

import asyncio

import pytest
from pydantic import TypeAdapter, ValidationError

from rqueue.errors import ResultTimeout
from rqueue.task.attempt.outcome import REASONS, AttemptRecord, Lost, Reason, reason_of, register
from rqueue.task.state import State


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


def test_a_registered_exception_and_its_children_have_their_own_reason(
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
def test_every_finer_word_belongs_to_a_family(reason: Reason, family: Reason) -> None:
    assert reason.family is family
    assert family.family is family


def test_metrics_call_an_exceeded_budget_budget() -> None:
    assert Reason.BUDGET_EXCEEDED.label == "budget"
    assert Reason.HEARTBEAT_TIMEOUT.label == "crash"


@pytest.mark.parametrize("state", [State.READY, State.COMPLETED, State.RETRYING])
def test_a_task_that_nobody_holds_cannot_be_lost(state: State) -> None:
    with pytest.raises(ValueError, match="no worker"):
        Lost(state)


def test_a_record_is_read_back_from_its_json() -> None:
    record = AttemptRecord.of(attempt=1, agent="a", reason="timeout", at="2026-02-08T09:00:00Z")

    assert AttemptRecord.model_validate_json(record.model_dump_json()) == record
    assert record.reason is Reason.TIMEOUT
