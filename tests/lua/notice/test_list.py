"""list: how each sink is doing, and since when it lacks something."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.told import happens, notices, served, settled, taken
from tests.lua.task.keys_after import ask


async def test_without_sinks_there_is_nothing_to_tell(harness: Harness) -> None:
    (word, now) = await ask(harness, "notice/list", {"page": 10})

    assert (word, int(now) > 1e12) == ("OK", True)
    assert await harness.dump() == {}


async def test_one_that_has_had_all_lacks_nothing(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    await settled(harness, *await taken(harness))
    before = await harness.dump()

    ((name, served_ms, number, oldest),) = (await ask(harness, "notice/list", {"page": 10}))[2:]

    assert (name, number, oldest) == ("ops", 0, "")
    assert float(served_ms) > 1e12
    assert await harness.dump() == before


async def test_the_oldest_that_is_lacking_may_be_taken_or_not(harness: Harness) -> None:
    await served(harness, "ops", "slow")
    await served(harness, "other", wants="breaker.closed")
    await happens(harness, 2)
    one, two = await notices(harness)
    await taken(harness)
    await settled(harness, one, delay=60_000)
    await settled(harness, two)

    rows = (await ask(harness, "notice/list", {"page": 10}))[2:]

    found = {row[0]: row[2:] for row in rows}
    assert found == {"ops": [1, one], "slow": [0, one], "other": [0, ""]}


async def test_the_store_tells_how_long_ago_that_was(harness: Harness) -> None:
    await served(harness, "ops", "slow")
    await happens(harness)
    await settled(harness, *await taken(harness))
    await harness.client.zadd(harness.keys.sinks(), {"ops": 1})

    ops, slow = await harness.queue.notices.sinks()

    assert (ops.name, ops.open, ops.oldest_ms) == ("ops", 0, None)
    assert ops.silent_ms > 1e12
    assert (slow.name, slow.open) == ("slow", 0)
    assert slow.oldest_ms is not None
    assert 0 <= slow.oldest_ms < 60_000
