"""Whatever a handler raises, its worker and the other tasks continue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Reject, Retry, State
from rqueue.task.attempt import retry, verdict
from rqueue.task.attempt.outcome import Failed
from tests.harness import Harness
from tests.worker.running import ended, working


def changed(error: Any, **facts: Any) -> BaseException:
    """An error whose attributes were replaced."""
    vars(error).update(facts)
    assert isinstance(error, BaseException)
    return error


def odd(value: Any) -> Any:
    return value


WRONG: dict[str, Callable[[], BaseException]] = {
    "Reject.reason: must be a string, not NoneType": lambda: Reject(odd(None)),
    "Reject.reason: must be a string, not int": lambda: Reject(odd(12)),
    "Retry.reason: must be a string, not int": lambda: Retry(reason=odd(12)),
    "Retry.after: must be a timedelta or a number of seconds >= 0, not 'soon'": lambda: Retry(
        odd("soon")
    ),
    "Retry.after: must be a timedelta or a number of seconds >= 0, not nan": lambda: Retry(
        float("nan")
    ),
    "Retry.after: must be a timedelta or a number of seconds >= 0, not -5": lambda: Retry(-5),
    "the retry policy failed: Traceback": lambda: changed(Reject("no"), reason=12),
}


@pytest.mark.parametrize("error_name", WRONG)
async def test_an_unusual_exception_is_a_failure_with_its_text(
    harness: Harness, error_name: str
) -> None:
    @harness.queue.task("wrong", max_attempts=1)
    async def wrong() -> None:
        raise WRONG[error_name]()

    @harness.queue.task("fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError("as ever")

    @harness.queue.task("good")
    async def good() -> int:
        return 7

    handles = await harness.queue.enqueue_many([wrong.call(), fails.call(), wrong.call()])
    async with working(harness.queue):
        dead = [await ended(harness.queue, handle.id, State.DEAD_LETTERED) for handle in handles]
        assert await (await good.enqueue()).result(timeout=10) == 7

    assert [task.failure_history[0].reason for task in dead] == ["error"] * 3
    for task in (dead[0], dead[2]):
        # Indented lines quote this file, where the text stands too.
        lines = task.failure_history[0].error.splitlines()
        assert any(error_name in line for line in lines if not line.startswith(" "))
    assert "as ever" in dead[1].failure_history[0].error


async def test_a_failure_that_breaks_the_retry_policy_is_retried_as_a_plain_error(
    harness: Harness,
) -> None:
    @harness.queue.task("wrong")
    async def wrong() -> None:
        raise changed(Retry(), after="soon")

    handle = await wrong.enqueue()
    async with working(harness.queue):
        task = await ended(harness.queue, handle.id, State.RETRYING)

    assert task.failure_history[0].error.startswith("the retry policy failed: Traceback")


async def test_a_retry_accepts_a_timedelta(harness: Harness) -> None:
    @harness.queue.task("later")
    async def later() -> None:
        raise Retry(after=timedelta(hours=2))

    handle = await later.enqueue()
    async with working(harness.queue):
        task = await ended(harness.queue, handle.id, State.RETRYING)

    wait = task.available_at - task.failure_history[0].at
    assert abs(wait - timedelta(hours=2)) < timedelta(minutes=1)


async def test_a_policy_that_raises_fails_its_task_and_delays_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = retry.decide

    def breaks(outcome: Any, *facts: Any) -> Any:
        if (
            isinstance(outcome, Failed)
            and not outcome.permanent
            and "as ever" not in outcome.message
        ):
            raise ZeroDivisionError("no delay")
        return sound(outcome, *facts)

    monkeypatch.setattr(verdict, "decide", breaks)

    @harness.queue.task("fails")
    async def fails(text: str) -> None:
        raise ValueError(text)

    handles = await harness.queue.enqueue_many([fails.call("strange"), fails.call("as ever")])
    async with working(harness.queue):
        dead = await ended(harness.queue, handles[0].id, State.DEAD_LETTERED)
        await ended(harness.queue, handles[1].id, State.RETRYING)

    assert "no delay" in dead.failure_history[0].error
