"""list: when each sink was served, and its oldest undelivered notice."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.sinks import emit_events, notices, served, settled, taken
from tests.lua.task.keyspace import run_move


async def test_without_sinks_the_list_is_empty(harness: Harness) -> None:
    (word, now) = await run_move(harness, "notice/list", {"page": 10})

    assert (word, int(now) > 1e12) == ("OK", True)
    assert await harness.dump() == {}


async def test_a_sink_with_all_notices_delivered_has_no_oldest_one(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    await settled(harness, *await taken(harness))
    before = await harness.dump()

    ((name, served_ms, number, oldest),) = (await run_move(harness, "notice/list", {"page": 10}))[
        2:
    ]

    assert (name, number, oldest) == ("ops", 0, "")
    assert float(served_ms) > 1e12
    assert await harness.dump() == before


async def test_the_oldest_undelivered_notice_may_be_taken_or_not(harness: Harness) -> None:
    await served(harness, "ops", "slow")
    await served(harness, "other", wants="breaker.closed")
    await emit_events(harness, 2)
    one, two = await notices(harness)
    await taken(harness)
    await settled(harness, one, delay=60_000)
    await settled(harness, two)

    rows = (await run_move(harness, "notice/list", {"page": 10}))[2:]

    found = {row[0]: row[2:] for row in rows}
    assert found == {"ops": [1, one], "slow": [0, one], "other": [0, ""]}


async def test_the_client_returns_how_long_ago_that_was(harness: Harness) -> None:
    await served(harness, "ops", "slow")
    await emit_events(harness)
    await settled(harness, *await taken(harness))
    await harness.client.zadd(harness.keys.sinks(), {"ops": 1})

    ops, slow = await harness.queue.notices.sinks()

    assert (ops.name, ops.open, ops.oldest_ms) == ("ops", 0, None)
    assert ops.silent_ms > 1e12
    assert (slow.name, slow.open) == ("slow", 0)
    assert slow.oldest_ms is not None
    assert 0 <= slow.oldest_ms < 60_000
