"""Breakers and slow-downs by the API: what they count, manual changes, refused arguments."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.core.leases import Parked, park
from rqueue.errors import InvalidTask
from tests.harness import Harness, opened

QUICK = {"defaults": {"failure_threshold": 2}, "overrides": {"calm": {"enabled": False}}}


async def failing(harness: Harness, type: str, times: int) -> None:
    """Runs this many attempts that fail."""
    for _ in range(times):
        await harness.queue.enqueue(type, max_attempts=1)
        (lease,) = await harness.queue.claim(worker="w1", types=[type])
        await lease.start()
        await lease.fail("error", "broken")


async def test_the_breaker_of_a_failing_type_opens(server: Any) -> None:
    async with opened(server, breakers=QUICK) as harness:
        await failing(harness, "code", 2)
        handle = await harness.queue.enqueue("code")

        (breaker,) = await harness.queue.limits.breakers()
        assert (breaker.type, breaker.state, breaker.failures) == ("code", "open", 2)
        assert await harness.queue.claim(worker="w1") == []
        # Tasks that wait at an open breaker spend no attempt.
        assert (await harness.queue.get(handle.id)).attempts == 0


async def test_a_type_with_a_disabled_breaker_has_none(server: Any) -> None:
    async with opened(server, breakers=QUICK) as harness:
        await failing(harness, "calm", 5)

        assert await harness.queue.limits.breakers() == []


async def test_a_permanent_rate_limit_error_does_not_count_for_the_breaker(server: Any) -> None:
    async with opened(server, breakers=QUICK) as harness:
        lease = await harness.running()

        await lease.fail("rate_limit", "slow down", permanent=True)

        assert await harness.queue.limits.breakers() == []


@pytest.mark.parametrize(("profile", "number"), [("factory", 0), ("reference", 1)])
async def test_without_rules_only_the_reference_profile_has_breakers(
    server: Any, profile: str, number: int
) -> None:
    async with opened(server, profile=profile) as harness:
        await failing(harness, "code", 1)

        assert len(await harness.queue.limits.breakers()) == number


async def test_a_manually_opened_breaker_is_closed_manually(harness: Harness) -> None:
    await harness.queue.limits.open_breaker("code", 60)
    handle = await harness.queue.enqueue("code")
    assert await harness.queue.claim(worker="w1") == []

    await harness.queue.limits.close_breaker("code")

    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    assert (await harness.queue.get(handle.id)).state is State.COMPLETED


@pytest.mark.parametrize("wrong", ["", "a b", "}", 7, None])
async def test_an_invalid_type_is_refused(harness: Harness, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match="type"):
        await harness.queue.limits.open_breaker(wrong)
    with pytest.raises(InvalidTask, match="type"):
        await harness.queue.limits.close_breaker(wrong)
    assert await harness.dump() == {}


@pytest.mark.parametrize("wrong", [-1, float("inf"), "soon", True, 10**9])
async def test_an_invalid_duration_is_refused(harness: Harness, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match="seconds"):
        await harness.queue.limits.open_breaker("code", wrong)
    assert await harness.dump() == {}


async def slowed(harness: Harness, **options: Any) -> None:
    """Parks a task, which slows its type or tenant down."""
    lease = await harness.running(**options)
    row = Parked(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])


async def test_a_slow_down_is_listed_and_lifted_manually(harness: Harness) -> None:
    await slowed(harness, limit_key="acme")
    await slowed(harness)
    await harness.queue.enqueue("code", limit_key="acme")
    assert await harness.queue.claim(worker="w1") == []

    seen = [(one.type, one.key, one.resting) for one in await harness.queue.limits.slowdowns()]
    lifted = [
        await harness.queue.limits.lift_slowdown("code"),
        await harness.queue.limits.lift_slowdown("code"),
        await harness.queue.limits.lift_slowdown(key="acme"),
    ]

    assert seen == [("code", None, True), (None, "acme", True)]
    assert lifted == [True, False, True]
    assert await harness.queue.limits.slowdowns() == []
    assert len(await harness.queue.claim(worker="w1")) == 1


@pytest.mark.parametrize("given", [{}, {"type": "a", "key": "b"}, {"type": "a b"}, {"key": "\n"}])
async def test_a_slow_down_without_type_or_key_is_refused(harness: Harness, given: Any) -> None:
    with pytest.raises(InvalidTask):
        await harness.queue.limits.lift_slowdown(**given)
    assert await harness.dump() == {}
