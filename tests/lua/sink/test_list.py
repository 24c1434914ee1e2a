"""list: how each sink is doing, and since when it lacks something."""

from __future__ import annotations

from rqueue.store.sinks import list_sinks
from tests.house import House
from tests.lua.sink.told import happens, notices, served, settled, taken
from tests.lua.task.afterwards import ask


async def test_without_sinks_there_is_nothing_to_tell(house: House) -> None:
    (word, now) = await ask(house, "sink/list", {"page": 10})

    assert (word, int(now) > 1e12) == ("OK", True)
    assert await house.dump() == {}


async def test_one_that_has_had_all_lacks_nothing(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    await settled(house, *await taken(house))
    before = await house.dump()

    ((name, served_ms, number, oldest),) = (await ask(house, "sink/list", {"page": 10}))[2:]

    assert (name, number, oldest) == ("ops", 0, "")
    assert float(served_ms) > 1e12
    assert await house.dump() == before


async def test_the_oldest_that_is_lacking_may_be_taken_or_not(house: House) -> None:
    await served(house, "ops", "slow")
    await served(house, "other", wants="breaker.closed")
    await happens(house, 2)
    one, two = await notices(house)
    await taken(house)
    await settled(house, one, delay=60_000)
    await settled(house, two)

    rows = (await ask(house, "sink/list", {"page": 10}))[2:]

    found = {row[0]: row[2:] for row in rows}
    assert found == {"ops": [1, one], "slow": [0, one], "other": [0, ""]}


async def test_the_store_tells_how_long_ago_that_was(house: House) -> None:
    await served(house, "ops", "slow")
    await happens(house)
    await settled(house, *await taken(house))
    await house.client.zadd(house.keys.sinks(), {"ops": 1})

    ops, slow = await list_sinks(house.queue.shard)

    assert (ops.name, ops.open, ops.oldest_ms) == ("ops", 0, None)
    assert ops.silent_ms > 1e12
    assert (slow.name, slow.open) == ("slow", 0)
    assert slow.oldest_ms is not None
    assert 0 <= slow.oldest_ms < 60_000
