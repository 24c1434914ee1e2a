"""forget: a sink that nobody serves any more keeps no notice for ever."""

from __future__ import annotations

from tests.house import House
from tests.lua.sink.told import happens, notices, served, sink_keys, taken
from tests.lua.task.afterwards import ask

TERMS = {"silent_ms": 60_000, "limit": 10}


async def deserted(house: House, sink: str) -> None:
    await house.client.zadd(house.keys.sinks(), {sink: 1})


async def test_one_that_is_served_stays(house: House) -> None:
    await served(house, "ops")
    before = await house.dump()

    assert await ask(house, "sink/forget", TERMS) == ["OK", 0]

    assert await house.dump() == before


async def test_one_that_is_not_goes_with_what_it_lacks(house: House) -> None:
    await served(house, "ops", wants="breaker.opened breaker.closed")
    await served(house, "gone", wants="breaker.opened task.unserved")
    await happens(house, 2)
    await taken(house, sink="gone")
    await deserted(house, "gone")

    assert await ask(house, "sink/forget", TERMS) == ["OK", 1]

    found = await sink_keys(house)
    assert set(found) == {"notices", "noticed", "sinks", "sink:ops", "wanted:ops"}
    assert found["noticed"] == {b"breaker.opened", b"breaker.closed"}
    assert await taken(house) == await notices(house)


async def test_the_last_one_leaves_nothing_behind(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    await taken(house)
    await deserted(house, "ops")

    await ask(house, "sink/forget", TERMS)
    await happens(house)

    assert await sink_keys(house) == {}


async def test_sent_again_it_changes_nothing(house: House) -> None:
    await served(house, "ops", "gone")
    await happens(house)
    await deserted(house, "gone")
    await ask(house, "sink/forget", TERMS)
    before = await house.dump()

    assert await ask(house, "sink/forget", TERMS) == ["OK", 0]

    assert await house.dump() == before


async def test_so_many_at_a_time(house: House) -> None:
    await served(house, "a", "b", "c")
    for sink in ("a", "b", "c"):
        await deserted(house, sink)

    assert await ask(house, "sink/forget", TERMS | {"limit": 2}) == ["OK", 2]
    assert await ask(house, "sink/forget", TERMS | {"limit": 2}) == ["OK", 1]
