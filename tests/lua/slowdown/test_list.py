"""list: what is slowed down, and until when."""

from __future__ import annotations

from datetime import timedelta

from rqueue.limits import slowdown as slowing
from rqueue.limits.slowdown import slowdowns
from tests.harness import Harness
from tests.lua.slowdown.test_lift import keyed, slowed


async def test_without_slow_downs_the_list_is_empty(harness: Harness) -> None:
    await (await harness.running()).complete()

    assert await slowdowns(harness.queue._internals.shard) == []


async def test_a_type_is_blocked_and_then_recovers_for_as_long(harness: Harness) -> None:
    await slowed(harness, await harness.running())

    (found,) = await slowdowns(harness.queue._internals.shard)

    assert (found.type, found.key, found.resting) == ("code", None, True)
    assert found.over_at - found.until == timedelta(seconds=60)
    rests = (
        found.until - (await harness.queue.get((await harness.queue.enqueue("x")).id)).created_at
    )
    assert timedelta(seconds=30) < rests <= timedelta(seconds=60)


async def test_a_recovering_type_is_listed_until_the_recovery_ends(harness: Harness) -> None:
    await slowed(harness, await harness.running())
    until = int(await harness.client.hget(harness.keys.slow("code"), "until"))

    await harness.client.hset(harness.keys.slow("code"), "until", until - 90_000)
    (recovering,) = await slowdowns(harness.queue._internals.shard)
    await harness.client.hset(harness.keys.slow("code"), "until", until - 120_000)
    over = await slowdowns(harness.queue._internals.shard)

    assert not recovering.resting
    assert over == []


async def test_types_are_listed_before_tenants_each_by_name(harness: Harness) -> None:
    for key in ("beta", "acme"):
        await slowed(harness, await keyed(harness, key))
    await slowed(harness, await harness.running())

    found = await slowdowns(harness.queue._internals.shard)

    assert [one.type or one.key for one in found] == ["code", "acme", "beta"]


async def test_many_are_read_in_pages_up_to_the_limit(harness: Harness) -> None:
    names = [f"@tenant-{number}" for number in range(2000)]
    await harness.client.sadd(harness.keys.slowed(), *names)
    for name in names:
        await harness.client.hset(
            harness.keys.slow(name), mapping={"until": 9 * 10**12, "span": 1000}
        )

    some = await slowdowns(harness.queue._internals.shard, most=slowing.PAGE)
    every = await slowdowns(harness.queue._internals.shard)

    assert slowing.PAGE <= len(some) < 2000
    assert {f"@{one.key}" for one in every} == set(names)
