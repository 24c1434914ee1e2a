"""forget: a sink that no notifier serves any more keeps no notices."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.sinks import emit_events, notices, served, sink_keys, taken
from tests.lua.task.keyspace import run_move

TERMS = {"silent_ms": 60_000, "limit": 10}


async def deserted(harness: Harness, sink: str) -> None:
    await harness.client.zadd(harness.keys.sinks(), {sink: 1})


async def test_a_served_sink_stays(harness: Harness) -> None:
    await served(harness, "ops")
    before = await harness.dump()

    assert await run_move(harness, "notice/forget", TERMS) == ["OK", 0]

    assert await harness.dump() == before


async def test_an_unserved_sink_is_deleted_with_its_undelivered_notices(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened breaker.closed")
    await served(harness, "gone", wants="breaker.opened task.unserved")
    await emit_events(harness, 2)
    await taken(harness, sink="gone")
    await deserted(harness, "gone")

    assert await run_move(harness, "notice/forget", TERMS) == ["OK", 1]

    found = await sink_keys(harness)
    assert set(found) == {"notices", "noticed", "sinks", "sink:ops", "wanted:ops"}
    assert found["noticed"] == {b"breaker.opened", b"breaker.closed"}
    assert await taken(harness) == await notices(harness)


async def test_the_last_sink_leaves_no_key(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    await taken(harness)
    await deserted(harness, "ops")

    await run_move(harness, "notice/forget", TERMS)
    await emit_events(harness)

    assert await sink_keys(harness) == {}


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await served(harness, "ops", "gone")
    await emit_events(harness)
    await deserted(harness, "gone")
    await run_move(harness, "notice/forget", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "notice/forget", TERMS) == ["OK", 0]

    assert await harness.dump() == before


async def test_one_call_deletes_at_most_its_limit(harness: Harness) -> None:
    await served(harness, "a", "b", "c")
    for sink in ("a", "b", "c"):
        await deserted(harness, sink)

    assert await run_move(harness, "notice/forget", TERMS | {"limit": 2}) == ["OK", 2]
    assert await run_move(harness, "notice/forget", TERMS | {"limit": 2}) == ["OK", 1]
