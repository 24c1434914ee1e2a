"""What is told of an exception: its class and its place, and not one word of its text."""

from __future__ import annotations

import asyncio
import re

import pytest

from rqueue.errors import StoreUnavailable
from rqueue.model.attempt import REASONS, Reason, register
from rqueue.policy.behind import together
from rqueue.policy.fault import FIRST, FRAMES, is_cancelled, is_outside, reason_in, told


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


def test_an_exception_is_told_without_its_text() -> None:
    found = told(caught(ValueError("hush")))

    assert found["raised"] == "ValueError"
    assert re.fullmatch(
        r"\S+test_fault\.py:\d+ caught > \S+test_fault\.py:\d+ raises", found["where"]
    )
    assert "hush" not in str(found)


def test_a_class_bears_its_module_and_what_was_never_raised_has_no_place() -> None:
    assert told(StoreUnavailable("redis")) == {
        "raised": "rqueue.errors.StoreUnavailable",
        "where": "",
    }


def test_of_many_frames_the_innermost_are_told() -> None:
    found = told(caught(KeyError("hush"), depth=50))

    assert found["where"].count(" > ") == FRAMES - 1
    assert "caught" not in found["where"]


class TransportError(Exception):
    """As httpx has it: no OSError."""


class ConnectTimeout(TransportError):
    pass


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def behind(cause: BaseException, depth: int = 1) -> BaseException:
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
        (behind(ConnectionError()), True),
        (behind(ConnectionError(), 100), False),
        (behind(ValueError()), False),
        (ExceptionGroup("", [OSError(), TimeoutError()]), True),
        (ExceptionGroup("", [OSError(), ValueError()]), False),
        (ValueError(), False),
        (MemoryError(), False),
        (AssertionError(), False),
        (SystemExit(1), False),
    ],
)
def test_an_error_of_what_a_handler_depends_on_is_known(
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
def test_one_reason_counts_of_all_that_are_in_a_group(
    raised: list[BaseException], reason: Reason
) -> None:
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", raised)])

    assert reason_in(together(group)) is reason
    assert reason_in(raised) is reason


def test_a_group_of_a_kind_that_was_registered_says_itself_what_it_means() -> None:
    class Late(ExceptionGroup):
        pass

    register(Late, Reason.TIMEOUT)
    try:
        assert reason_in(together(Late("", [KeyError()]))) is Reason.TIMEOUT
    finally:
        del REASONS[Late]


def test_every_reason_has_a_place_among_those_of_a_group() -> None:
    assert {reason.family for reason in Reason} == set(FIRST)


async def test_a_cancel_of_something_else_is_not_ones_own() -> None:
    seen: list[bool] = []
    looked = asyncio.Event()

    async def waits() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(inner.cancel)
        await asyncio.gather(inner, return_exceptions=True)
        seen.append(is_cancelled())
        looked.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(is_cancelled())

    task = asyncio.create_task(waits())
    await looked.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert seen == [False, True]
