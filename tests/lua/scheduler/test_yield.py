"""yield: the leader may end its term at once; no one else may."""

from __future__ import annotations

from rqueue.process.scheduler import lead, leader, yield_term
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import run_move

TTL_MS = 60_000


async def test_another_owner_cannot_yield(harness: Harness) -> None:
    await lead(harness.queue._internals.shard, "a", ttl_ms=TTL_MS)
    before = await harness.dump()

    assert await run_move(harness, "scheduler/yield", {"owner": "b"}) == ["LOST"]
    assert await harness.dump() == before


async def test_without_a_leader_a_yield_writes_nothing(harness: Harness) -> None:
    assert await run_move(harness, "scheduler/yield", {"owner": "a"}) == ["LOST"]
    assert await harness.dump() == {}


async def test_the_term_is_over_and_its_epoch_is_kept(harness: Harness) -> None:
    await lead(harness.queue._internals.shard, "a", ttl_ms=TTL_MS)

    assert await run_move(harness, "scheduler/yield", {"owner": "a"}) == ["OK"]

    assert await everything(harness) == {
        "leader": {"owner": "a", "epoch": "1", "ttl_ms": str(TTL_MS), "until_ms": "0"}
    }
    assert await leader(harness.queue._internals.shard) is None


async def test_another_caller_leads_at_once(harness: Harness) -> None:
    await lead(harness.queue._internals.shard, "a", ttl_ms=TTL_MS)
    assert await yield_term(harness.queue._internals.shard, "a") is True

    term = await lead(harness.queue._internals.shard, "b", ttl_ms=TTL_MS)

    assert (term.owner, term.epoch) == ("b", 2)


async def test_a_repeated_call_gets_the_same_reply(harness: Harness) -> None:
    await lead(harness.queue._internals.shard, "a", ttl_ms=TTL_MS)
    await run_move(harness, "scheduler/yield", {"owner": "a"})
    before = await harness.dump()

    assert await run_move(harness, "scheduler/yield", {"owner": "a"}) == ["OK"]
    assert await harness.dump() == before


async def test_a_late_copy_does_not_end_the_next_term(harness: Harness) -> None:
    await lead(harness.queue._internals.shard, "a", ttl_ms=TTL_MS)
    await yield_term(harness.queue._internals.shard, "a")
    await lead(harness.queue._internals.shard, "b", ttl_ms=TTL_MS)

    assert await yield_term(harness.queue._internals.shard, "a") is False

    found = await leader(harness.queue._internals.shard)
    assert found is not None
    assert found.owner == "b"
