"""forget: a sink that nobody serves any more keeps no notice for ever."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.told import happens, notices, served, sink_keys, taken
from tests.lua.task.keys_after import ask

TERMS = {"silent_ms": 60_000, "limit": 10}


async def deserted(harness: Harness, sink: str) -> None:
    await harness.client.zadd(harness.keys.sinks(), {sink: 1})


async def test_one_that_is_served_stays(harness: Harness) -> None:
    await served(harness, "ops")
    before = await harness.dump()

    assert await ask(harness, "notice/forget", TERMS) == ["OK", 0]

    assert await harness.dump() == before


async def test_one_that_is_not_goes_with_what_it_lacks(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened breaker.closed")
    await served(harness, "gone", wants="breaker.opened task.unserved")
    await happens(harness, 2)
    await taken(harness, sink="gone")
    await deserted(harness, "gone")

    assert await ask(harness, "notice/forget", TERMS) == ["OK", 1]

    found = await sink_keys(harness)
    assert set(found) == {"notices", "noticed", "sinks", "sink:ops", "wanted:ops"}
    assert found["noticed"] == {b"breaker.opened", b"breaker.closed"}
    assert await taken(harness) == await notices(harness)


async def test_the_last_one_leaves_nothing_behind(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    await taken(harness)
    await deserted(harness, "ops")

    await ask(harness, "notice/forget", TERMS)
    await happens(harness)

    assert await sink_keys(harness) == {}


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    await served(harness, "ops", "gone")
    await happens(harness)
    await deserted(harness, "gone")
    await ask(harness, "notice/forget", TERMS)
    before = await harness.dump()

    assert await ask(harness, "notice/forget", TERMS) == ["OK", 0]

    assert await harness.dump() == before


async def test_so_many_at_a_time(harness: Harness) -> None:
    await served(harness, "a", "b", "c")
    for sink in ("a", "b", "c"):
        await deserted(harness, sink)

    assert await ask(harness, "notice/forget", TERMS | {"limit": 2}) == ["OK", 2]
    assert await ask(harness, "notice/forget", TERMS | {"limit": 2}) == ["OK", 1]
