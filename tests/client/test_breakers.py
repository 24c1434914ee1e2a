"""Breakers and slow-downs by the API: what counts, by hand, and what is refused at the door."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.errors import InvalidTask
from rqueue.store.leases import Parking, park
from tests.house import House, opened

QUICK = {"defaults": {"failure_threshold": 2}, "overrides": {"calm": {"enabled": False}}}


async def failing(house: House, type: str, times: int) -> None:
    """So many attempts in a row that fail."""
    for _ in range(times):
        await house.queue.enqueue(type, max_attempts=1)
        (lease,) = await house.queue.claim(worker="w1", types=[type])
        await lease.start()
        await lease.fail("error", "broken")


async def test_a_type_that_fails_is_given_a_rest(server: Any) -> None:
    async with opened(server, breakers=QUICK) as house:
        await failing(house, "code", 2)
        handle = await house.queue.enqueue("code")

        (breaker,) = await house.queue.breakers()
        assert (breaker.type, breaker.state, breaker.failures) == ("code", "open", 2)
        assert await house.queue.claim(worker="w1") == []
        # What waits at an open breaker spends nothing.
        assert (await house.queue.get(handle.id)).attempts == 0


async def test_a_type_whose_breaker_is_off_is_not(server: Any) -> None:
    async with opened(server, breakers=QUICK) as house:
        await failing(house, "calm", 5)

        assert await house.queue.breakers() == []


async def test_a_task_that_was_taken_back_says_nothing(server: Any) -> None:
    async with opened(server, breakers=QUICK) as house:
        lease = await house.running()

        await lease.fail("rate_limit", "slow down", permanent=True)

        assert await house.queue.breakers() == []


@pytest.mark.parametrize(("profile", "number"), [("factory", 0), ("reference", 1)])
async def test_without_rules_only_the_reference_has_breakers(
    server: Any, profile: str, number: int
) -> None:
    async with opened(server, profile=profile) as house:
        await failing(house, "code", 1)

        assert len(await house.queue.breakers()) == number


async def test_a_rest_by_hand_ends_by_hand(house: House) -> None:
    await house.queue.open_breaker("code", 60)
    handle = await house.queue.enqueue("code")
    assert await house.queue.claim(worker="w1") == []

    await house.queue.close_breaker("code")

    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    assert (await house.queue.get(handle.id)).state is State.COMPLETED


@pytest.mark.parametrize("wrong", ["", "a b", "}", 7, None])
async def test_a_type_that_cannot_be_is_refused(house: House, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match="type"):
        await house.queue.open_breaker(wrong)
    with pytest.raises(InvalidTask, match="type"):
        await house.queue.close_breaker(wrong)
    assert await house.dump() == {}


@pytest.mark.parametrize("wrong", [-1, float("inf"), "soon", True, 10**9])
async def test_a_rest_that_cannot_be_is_refused(house: House, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match="seconds"):
        await house.queue.open_breaker("code", wrong)
    assert await house.dump() == {}


async def slowed(house: House, **options: Any) -> None:
    """A task is set aside, and its type or key slowed down."""
    lease = await house.running(**options)
    row = Parking(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(house.queue.shard, [row])


async def test_a_slow_down_is_seen_and_ends_by_hand(house: House) -> None:
    await slowed(house, limit_key="acme")
    await slowed(house)
    await house.queue.enqueue("code", limit_key="acme")
    assert await house.queue.claim(worker="w1") == []

    seen = [(one.type, one.key, one.resting) for one in await house.queue.slowdowns()]
    lifted = [
        await house.queue.lift_slowdown("code"),
        await house.queue.lift_slowdown("code"),
        await house.queue.lift_slowdown(key="acme"),
    ]

    assert seen == [("code", None, True), (None, "acme", True)]
    assert lifted == [True, False, True]
    assert await house.queue.slowdowns() == []
    assert len(await house.queue.claim(worker="w1")) == 1


@pytest.mark.parametrize("given", [{}, {"type": "a", "key": "b"}, {"type": "a b"}, {"key": "\n"}])
async def test_a_slow_down_of_nothing_is_refused(house: House, given: Any) -> None:
    with pytest.raises(InvalidTask):
        await house.queue.lift_slowdown(**given)
    assert await house.dump() == {}
