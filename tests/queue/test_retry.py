"""Failed attempts by hand: the delay of the retry, and when there is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rqueue import Lease, RetryPolicy, State
from rqueue.errors import TaskDead
from tests.harness import Harness


async def test_a_failed_attempt_is_retried_until_none_is_left(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", max_attempts=3, retry=RetryPolicy.immediate())
    states = []
    for attempt in range(3):
        await harness.promoter.tick()
        (lease,) = await harness.queue.claim(worker=f"w{attempt}")
        await lease.start()
        states.append(await lease.fail("timeout", f"attempt {attempt}"))

    task = await handle.task()
    assert states == [State.RETRYING, State.RETRYING, State.DEAD_LETTERED]
    assert (task.state, task.attempts, task.failure_reason) == (states[-1], 3, "timeout")
    assert [record.error for record in task.failure_history] == [
        "attempt 0", "attempt 1", "attempt 2",
    ]  # fmt: skip
    assert [record.agent for record in task.failure_history] == ["w0", "w1", "w2"]
    with pytest.raises(TaskDead) as caught:
        await handle.result(timeout=5)
    assert (caught.value.reason, caught.value.message) == ("timeout", "attempt 2")


POLICIES: dict[str, tuple[RetryPolicy, list[float]]] = {
    "exponential": (RetryPolicy.exponential(10, 3, jitter=False), [10, 30, 90, 270, 300]),
    "quadratic": (RetryPolicy.quadratic(5), [5, 20, 45, 80]),
    "linear": (RetryPolicy.linear(10, max_delay=25), [10, 20, 25, 25]),
    "fixed": (RetryPolicy.fixed(7), [7, 7, 7]),
    "immediate": (RetryPolicy.immediate(), [0, 0]),
    "list": (RetryPolicy.list([1, 60]), [1, 60, 60]),
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_delay_of_a_retry_follows_the_policy(alone: Harness, policy: str) -> None:
    chosen, expected = POLICIES[policy]
    handle = await alone.queue.enqueue("code", max_attempts=10, retry=chosen)
    waits = []
    for _ in expected:
        (lease,) = await alone.queue.claim(worker="w1")
        waits.append(await wait_after_failure(alone, lease))
        await alone.queue.run_now(handle.id)

    assert waits == pytest.approx(expected, abs=0.5)


async def wait_after_failure(harness: Harness, lease: Lease, **how: Any) -> float:
    """Fails an attempt and returns the delay until the next one."""
    await lease.fail("error", "no", **how)
    task = await harness.task(lease.id)
    assert task.retry_at is not None
    # The time of the failure by the server's clock, independent of the duration of the call.
    ((entry, _),) = await harness.client.xrevrange(harness.keys.events(), count=1)
    return max(0.0, task.retry_at.timestamp() - int(entry.split(b"-")[0]) / 1000)


async def test_the_holder_may_set_the_delay_of_a_retry(harness: Harness) -> None:
    lease = await harness.running(retry=RetryPolicy.fixed(3))

    wait = await wait_after_failure(harness, lease, retry_after=120)

    assert wait == pytest.approx(120, abs=1)


async def test_a_permanent_failure_is_not_retried(harness: Harness) -> None:
    lease = await harness.running(max_attempts=5)

    assert await lease.fail("error", "hopeless", permanent=True) is State.DEAD_LETTERED
    assert (await harness.task(lease.id)).attempts == 1


@pytest.mark.parametrize("reason", ["auth_failure", "budget_exceeded", "cancelled"])
async def test_some_reasons_are_never_retried(harness: Harness, reason: str) -> None:
    lease = await harness.running(max_attempts=5)

    assert await lease.fail(reason) is State.DEAD_LETTERED
    assert (await harness.task(lease.id)).failure_reason == reason


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -5.0, 1e12])
async def test_an_invalid_retry_after_is_limited_to_the_valid_range(
    harness: Harness, seconds: float
) -> None:
    lease = await harness.running()

    wait = await wait_after_failure(harness, lease, retry_after=seconds)

    assert 0 <= wait <= timedelta(days=365).total_seconds()
