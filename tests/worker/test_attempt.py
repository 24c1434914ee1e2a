"""The outcome that an exception of a handler means, single or in a group."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rqueue import RateLimited, Reject, Retry
from rqueue.errors import BudgetExceeded
from rqueue.task.attempt.outcome import Cause, Reason
from rqueue.worker.attempt import failure_of, is_suspension
from rqueue.worker.context import Suspended


class StatusError(Exception):
    """An error like those of HTTP clients."""

    def __init__(self, status: int, after: str | None = None) -> None:
        super().__init__(f"status {status}")
        headers = {} if after is None else {"Retry-After": after}
        self.response = SimpleNamespace(status_code=status, headers=headers)


def raised_from(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def grouped(*errors: Exception) -> ExceptionGroup:
    return ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("", [*errors])])


LIMITED = {
    "a signal in a group": (grouped(RateLimited(30)), 30),
    "the longest of several": (grouped(RateLimited(5), RateLimited(90), RateLimited()), 90),
    "a status in a group": (grouped(StatusError(429, "30")), 30),
    "with another error": (grouped(KeyError("bug"), StatusError(429, "30")), 30),
    "with a retry": (grouped(Retry(900), RateLimited(30)), 30),
    "as a cause": (raised_from(RuntimeError("failed"), StatusError(429, "30")), 30),
    "a signal as a cause": (raised_from(RuntimeError("failed"), RateLimited(30)), 30),
    "as a cause in a group": (grouped(raised_from(RuntimeError(), StatusError(429))), None),
    "its time is in an earlier error": (
        raised_from(RuntimeError("try again in 30s"), StatusError(429)),
        30,
    ),
    "not the time of another": (
        grouped(RuntimeError("retry in 1 hour"), StatusError(429, "30")),
        30,
    ),
    "the signal has its own time": (raised_from(RateLimited(30), StatusError(429, "600")), 30),
}


@pytest.mark.parametrize("case", LIMITED)
def test_a_rate_limit_is_found_in_each_form(case: str) -> None:
    error, wait = LIMITED[case]

    found = failure_of(error)

    assert (found.reason, found.permanent) == (Reason.RATE_LIMIT, False)
    assert found.retry_after == wait


@pytest.mark.parametrize(
    "error",
    [
        raised_from(Retry(5, "429, but once more"), StatusError(429, "600")),
        grouped(Retry(5), Retry(2), Retry()),
        grouped(KeyError("bug"), Retry(5)),
    ],
    ids=["over a limit", "the longest", "with another error"],
)
def test_a_retry_in_a_group_is_respected(error: Exception) -> None:
    found = failure_of(error)

    assert (found.reason, found.cause, found.retry_after) == (Reason.ERROR, Cause.REQUESTED, 5)


@pytest.mark.parametrize("other", [RateLimited(5), Retry(5), KeyError("bug"), StatusError(429)])
def test_a_reject_takes_precedence_over_other_errors(other: Exception) -> None:
    found = failure_of(grouped(other, Reject("no such order")))

    assert (found.permanent, found.message) == (True, "no such order")


@pytest.mark.parametrize(
    "error",
    [
        BudgetExceeded("T1"),
        grouped(BudgetExceeded("T1")),
        grouped(Retry(5), RateLimited(30), KeyError("bug"), BudgetExceeded("T1")),
        grouped(Reject("no such order"), BudgetExceeded("T1")),
    ],
    ids=["single", "in a group", "with errors that wait", "with a reject"],
)
def test_an_exceeded_budget_is_a_permanent_failure(error: Exception) -> None:
    found = failure_of(error)

    assert (found.reason, found.permanent) == (Reason.BUDGET_EXCEEDED, True)


NAMED = {
    "a time-out": (grouped(TimeoutError()), Reason.TIMEOUT),
    "a time-out with another error": (grouped(KeyError("bug"), TimeoutError()), Reason.TIMEOUT),
    "no right": (grouped(TimeoutError(), PermissionError(), KeyError("bug")), Reason.AUTH_FAILURE),
    "a rate limit with a permission error": (
        grouped(PermissionError(), RateLimited(5)),
        Reason.RATE_LIMIT,
    ),
    "a retry with a timeout": (grouped(TimeoutError(), Retry(5)), Reason.ERROR),
    "a bug": (grouped(KeyError("bug")), Reason.ERROR),
    "what it was raised from": (raised_from(KeyError("bug"), PermissionError()), Reason.ERROR),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_group_has_the_reason_of_one_of_its_errors(case: str) -> None:
    error, reason = NAMED[case]

    assert failure_of(error).reason is reason


def test_an_error_with_a_known_reason_keeps_it() -> None:
    late = raised_from(TimeoutError("late"), StatusError(429, "30"))
    handling = KeyError("bug")
    handling.__context__ = StatusError(429)

    assert failure_of(late).reason is Reason.TIMEOUT
    assert failure_of(handling).reason is Reason.ERROR
    assert failure_of(grouped(KeyError("bug"))).cause is Cause.WITHIN


def test_a_rate_limit_with_an_invalid_time_is_still_a_rate_limit() -> None:
    odd: list[Any] = [RateLimited(5), RateLimited(7)]
    vars(odd[1]).update(retry_after="soon")

    assert failure_of(grouped(*odd)).retry_after == 5


async def test_a_group_with_suspended_in_it_is_a_suspension() -> None:
    async def leave() -> None:
        raise Suspended

    with pytest.raises(BaseExceptionGroup) as left:
        async with asyncio.TaskGroup() as group:
            group.create_task(leave())

    assert is_suspension(left.value)
    assert not is_suspension(grouped(KeyError("bug")))
