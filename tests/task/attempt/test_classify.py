"""Classification of exceptions, and what is logged of them: class and place, never the text."""

from __future__ import annotations

import asyncio
import re

import pytest

from rqueue.errors import StoreUnavailable
from rqueue.task.attempt.classify import (
    FIRST,
    FRAMES,
    is_cancelled,
    is_outside,
    log_fields,
    reason_in,
)
from rqueue.task.attempt.error_text import group_members
from rqueue.task.attempt.outcome import REASONS, Reason, register


def raises(error: BaseException, depth: int = 0) -> None:
    if depth:
        raises(error, depth - 1)
    raise error


def caught(error: BaseException, depth: int = 0) -> BaseException:
    try:
        raises(error, depth)
    except BaseException as found:
        return found
    raise AssertionError


def test_an_exception_is_logged_without_its_text() -> None:
    found = log_fields(caught(ValueError("hush")))

    assert found["raised"] == "ValueError"
    assert re.fullmatch(
        r"\S+test_classify\.py:\d+ caught > \S+test_classify\.py:\d+ raises", found["where"]
    )
    assert "hush" not in str(found)


def test_a_class_is_logged_with_its_module_and_an_unraised_error_without_place() -> None:
    assert log_fields(StoreUnavailable("redis")) == {
        "raised": "rqueue.errors.StoreUnavailable",
        "where": "",
    }


def test_only_the_innermost_frames_are_logged() -> None:
    found = log_fields(caught(KeyError("hush"), depth=50))

    assert found["where"].count(" > ") == FRAMES - 1
    assert "caught" not in found["where"]


class TransportError(Exception):
    """Like the one of httpx: no OSError."""


class ConnectTimeout(TransportError):
    pass


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def raised_with_cause(cause: BaseException, depth: int = 1) -> BaseException:
    """An error that was raised from another, so many times."""
    for _ in range(depth):
        error = RuntimeError("wrapped")
        error.__cause__ = cause
        cause = error
    return cause


@pytest.mark.parametrize(
    ("error", "outside"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (FileNotFoundError(), True),
        (PermissionError(), True),
        (ConnectTimeout(), True),
        (StatusError(503), True),
        (StatusError(404), False),
        (raised_with_cause(ConnectionError()), True),
        (raised_with_cause(ConnectionError(), 100), False),
        (raised_with_cause(ValueError()), False),
        (ExceptionGroup("", [OSError(), TimeoutError()]), True),
        (ExceptionGroup("", [OSError(), ValueError()]), False),
        (ValueError(), False),
        (MemoryError(), False),
        (AssertionError(), False),
        (SystemExit(1), False),
    ],
)
def test_errors_of_connections_and_services_are_outside_errors(
    error: BaseException, outside: bool
) -> None:
    assert is_outside(error) is outside


CANCEL = asyncio.CancelledError()


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ([TimeoutError()], Reason.TIMEOUT),
        ([PermissionError()], Reason.AUTH_FAILURE),
        ([KeyError()], Reason.ERROR),
        ([CANCEL], Reason.CANCELLED),
        ([KeyError(), TimeoutError()], Reason.TIMEOUT),
        ([TimeoutError(), MemoryError()], Reason.CRASH),
        ([MemoryError(), PermissionError(), TimeoutError()], Reason.AUTH_FAILURE),
        ([CANCEL, KeyError()], Reason.ERROR),
        ([CANCEL, TimeoutError()], Reason.TIMEOUT),
    ],
)
def test_a_group_has_the_reason_of_the_highest_precedence(
    raised: list[BaseException], reason: Reason
) -> None:
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", raised)])

    assert reason_in(group_members(group)) is reason
    assert reason_in(raised) is reason


def test_a_registered_group_class_has_its_own_reason() -> None:
    class Late(ExceptionGroup):
        pass

    register(Late, Reason.TIMEOUT)
    try:
        assert reason_in(group_members(Late("", [KeyError()]))) is Reason.TIMEOUT
    finally:
        del REASONS[Late]


def test_every_family_of_reasons_has_a_precedence() -> None:
    assert {reason.family for reason in Reason} == set(FIRST)


async def test_a_cancel_of_an_awaited_task_is_not_one_of_the_running_task() -> None:
    seen: list[bool] = []
    checked = asyncio.Event()

    async def waits() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(inner.cancel)
        await asyncio.gather(inner, return_exceptions=True)
        seen.append(is_cancelled())
        checked.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(is_cancelled())

    task = asyncio.create_task(waits())
    await checked.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert seen == [False, True]
