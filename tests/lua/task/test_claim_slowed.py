"""A limited service slows its whole type down: nothing, then one, then ever more."""

from __future__ import annotations

import pytest

from rqueue import Lease, State
from rqueue.store.leases import Parking, park
from rqueue.store.passage import promote
from tests.house import House
from tests.lua.task.afterwards import mail, parked


async def running(house: House, n: int = 1, type: str = "code") -> list[Lease]:
    """Tasks of a type that are under way."""
    await house.queue.enqueue_many([{"type": type}] * n)
    leases = await house.queue.claim(worker="w1", types=[type], n=n)
    for lease in leases:
        await lease.start()
    return leases


async def slowed(house: House, lease: Lease, slow_ms: int = 60_000, **how: int) -> str:
    """Sets a task aside, and slows its type down."""
    row = Parking(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    (word,) = await park(house.queue.shard, [row], **how)
    return word


async def over(house: House, ago_ms: int, span_ms: int = 10_000) -> None:
    """The rest was over so long ago."""
    seconds, micros = await house.client.time()
    until = seconds * 1000 + micros // 1000 - ago_ms
    await house.client.hset(house.keys.slow("code"), mapping={"until": until, "span": span_ms})


async def given(house: House, n: int = 50) -> int:
    """How many tasks of the type a claim is given."""
    return len(await house.queue.claim(worker="w2", types=["code"], n=n))


async def test_nothing_of_its_type_is_handed_out(house: House) -> None:
    (lease,) = await running(house)

    assert await slowed(house, lease) == "OK"

    await house.queue.enqueue("code")
    await house.queue.enqueue("review")
    (other,) = await house.queue.claim(worker="w2", n=9)
    assert other.task.type == "review"
    found = await house.task(lease.id)
    assert (found.state, found.attempts, found.parks) == (State.RETRYING, 0, 1)
    (*_, event) = await house.client.xrange(house.keys.events())
    assert event[1][b"event"] == b"type.slowed"


async def test_a_shorter_rest_does_not_end_a_longer_one(house: House) -> None:
    one, two = await running(house, 2)
    await slowed(house, one, 60_000)
    before = await house.client.hget(house.keys.slow("code"), "until")

    await slowed(house, two, 1_000)

    assert await house.client.hget(house.keys.slow("code"), "until") == before


@pytest.mark.parametrize(("ago_ms", "number"), [(0, 1), (1_000, 2), (4_100, 16)])
async def test_after_it_ever_more_are_handed_out(house: House, ago_ms: int, number: int) -> None:
    (lease,) = await running(house)
    await slowed(house, lease)
    await house.queue.enqueue_many([{"type": "code"}] * 100)

    # Steps of ten minutes each: none ends while the test looks.
    await over(house, ago_ms * 600, 6_000_000)

    assert await given(house) == number
    assert await given(house) == 0
    assert await house.client.zscore(house.keys.wakes(), "code") is not None


async def test_in_the_end_all_are(house: House) -> None:
    (lease,) = await running(house)
    await slowed(house, lease)
    await house.queue.enqueue_many([{"type": "code"}] * 100)

    await over(house, 10_001)

    assert await given(house) == 50
    assert await house.client.exists(house.keys.slow("code"), house.keys.slowed()) == 0


async def test_who_waits_is_answered_when_the_rest_is_over(house: House) -> None:
    (lease,) = await running(house)
    await slowed(house, lease)
    waiter = await parked(house)
    await house.queue.enqueue("code")
    assert await mail(house, waiter) == []

    await over(house, 0, 6_000_000)
    await house.client.zadd(house.keys.wakes(), {"code": 1})
    await promote(house.queue.shard)

    (line,) = await mail(house, waiter)
    assert line.startswith("tasks ")


async def test_another_gate_of_the_type_takes_no_time_from_a_rest(house: House) -> None:
    (lease,) = await running(house)
    await slowed(house, lease)
    await house.queue.enqueue("code")
    waiter = await parked(house)
    until = int(await house.client.hget(house.keys.slow("code"), "until"))

    await house.client.zadd(house.keys.wakes(), {"code": 1})
    done = await promote(house.queue.shard)

    assert done.next_ms == until
    assert await mail(house, waiter) == []


async def test_set_aside_too_often_it_is_not_any_more(house: House) -> None:
    (lease,) = await running(house)
    await house.client.hset(house.keys.task(lease.id.ulid), "parks", 20)
    before = await house.dump()

    assert await slowed(house, lease, most=20) == "STATE:SPENT"

    assert await house.dump() == before


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    (lease,) = await running(house)
    await slowed(house, lease)
    before = await house.dump()

    assert await slowed(house, lease) == "OK"

    assert await house.dump() == before
