"""read: the breakers that are not closed or have counted failures."""

from __future__ import annotations

from rqueue.task.attempt.breaker import Breaker, BreakerState
from tests.harness import Harness
from tests.lua.task.keyspace import run_move


async def test_without_failures_no_breaker_is_listed(harness: Harness) -> None:
    await (await harness.running()).complete()

    assert await harness.queue.limits.breakers() == []


async def test_a_breaker_that_only_counts_failures_is_closed(harness: Harness) -> None:
    lease = await harness.running()
    await lease.fail("error", "broken", permanent=True)

    (breaker,) = await harness.queue.limits.breakers()

    assert (breaker.type, breaker.state, breaker.failures) == ("code", BreakerState.CLOSED, 1)
    assert breaker.last_failure is not None
    assert (breaker.opened_at, breaker.half_open_at, breaker.probe) == (None, None, None)


async def test_a_breaker_whose_time_is_over_is_half_open_and_names_its_probe(
    harness: Harness,
) -> None:
    await run_move(
        harness, "breaker/open", {"type": "code", "for_ms": 0, "events": 10, "request": "r"}
    )
    (before,) = await harness.queue.limits.breakers()
    lease = await harness.running()

    (trying,) = await harness.queue.limits.breakers()
    await lease.release()
    (after,) = await harness.queue.limits.breakers()

    assert (before.state, before.probe) == (BreakerState.HALF_OPEN, None)
    assert (trying.state, trying.probe) == (BreakerState.HALF_OPEN, lease.id)
    assert (after.state, after.probe) == (BreakerState.HALF_OPEN, None)


async def test_breakers_are_sorted_by_type(harness: Harness) -> None:
    for type in ("c", "a", "b"):
        await harness.queue.limits.open_breaker(type)

    found: list[Breaker] = await harness.queue.limits.breakers()

    assert [breaker.type for breaker in found] == ["a", "b", "c"]
