"""read: the breakers that have something to tell."""

from __future__ import annotations

from rqueue.model.breaker import Breaker, BreakerState
from tests.house import House
from tests.lua.task.afterwards import ask


async def test_without_failures_there_is_nothing_to_tell(house: House) -> None:
    await (await house.running()).complete()

    assert await house.queue.breakers() == []


async def test_one_that_counts_failures_is_closed(house: House) -> None:
    lease = await house.running()
    await lease.fail("error", "broken", permanent=True)

    (breaker,) = await house.queue.breakers()

    assert (breaker.type, breaker.state, breaker.failures) == ("code", BreakerState.CLOSED, 1)
    assert breaker.last_failure is not None
    assert (breaker.opened_at, breaker.half_open_at, breaker.probe) == (None, None, None)


async def test_one_whose_time_has_come_is_half_open_and_names_its_probe(house: House) -> None:
    await ask(house, "breaker/open", {"type": "code", "for_ms": 0, "events": 10, "request": "r"})
    (before,) = await house.queue.breakers()
    lease = await house.running()

    (trying,) = await house.queue.breakers()
    await lease.release()
    (after,) = await house.queue.breakers()

    assert (before.state, before.probe) == (BreakerState.HALF_OPEN, None)
    assert (trying.state, trying.probe) == (BreakerState.HALF_OPEN, lease.id)
    assert (after.state, after.probe) == (BreakerState.HALF_OPEN, None)


async def test_they_come_in_the_order_of_their_types(house: House) -> None:
    for type in ("c", "a", "b"):
        await house.queue.open_breaker(type)

    found: list[Breaker] = await house.queue.breakers()

    assert [breaker.type for breaker in found] == ["a", "b", "c"]
