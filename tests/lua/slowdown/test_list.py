"""list: what is slowed down, and until when."""

from __future__ import annotations

from datetime import timedelta

from rqueue.store import slowdowns as slowing
from rqueue.store.slowdowns import slowdowns
from tests.house import House
from tests.lua.slowdown.test_lift import keyed, slowed


async def test_without_limited_services_there_is_nothing_to_tell(house: House) -> None:
    await (await house.running()).complete()

    assert await slowdowns(house.queue.shard) == []


async def test_a_type_rests_and_then_recovers_for_as_long(house: House) -> None:
    await slowed(house, await house.running())

    (found,) = await slowdowns(house.queue.shard)

    assert (found.type, found.key, found.resting) == ("code", None, True)
    assert found.over_at - found.until == timedelta(seconds=60)
    rests = found.until - (await house.queue.get((await house.queue.enqueue("x")).id)).created_at
    assert timedelta(seconds=30) < rests <= timedelta(seconds=60)


async def test_one_that_recovers_is_told_until_that_is_over(house: House) -> None:
    await slowed(house, await house.running())
    until = int(await house.client.hget(house.keys.slow("code"), "until"))

    await house.client.hset(house.keys.slow("code"), "until", until - 90_000)
    (recovering,) = await slowdowns(house.queue.shard)
    await house.client.hset(house.keys.slow("code"), "until", until - 120_000)
    over = await slowdowns(house.queue.shard)

    assert not recovering.resting
    assert over == []


async def test_types_come_before_keys_each_by_name(house: House) -> None:
    for key in ("beta", "acme"):
        await slowed(house, await keyed(house, key))
    await slowed(house, await house.running())

    found = await slowdowns(house.queue.shard)

    assert [one.type or one.key for one in found] == ["code", "acme", "beta"]


async def test_very_many_come_in_pages_and_no_more_than_wanted(house: House) -> None:
    names = [f"@tenant-{number}" for number in range(2000)]
    await house.client.sadd(house.keys.slowed(), *names)
    for name in names:
        await house.client.hset(house.keys.slow(name), mapping={"until": 9 * 10**12, "span": 1000})

    some = await slowdowns(house.queue.shard, most=slowing.PAGE)
    every = await slowdowns(house.queue.shard)

    assert slowing.PAGE <= len(some) < 2000
    assert {f"@{one.key}" for one in every} == set(names)
