"""lead: one owner at a time, for a while; each new term has the next epoch."""

from __future__ import annotations

from typing import Any

from rqueue.process.scheduler import Term, lead, leader
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import run_move

TTL_MS = 60_000


async def lead_reply(harness: Harness, owner: str, ttl_ms: int = TTL_MS) -> list[Any]:
    """The leader, its epoch, and the ms left."""
    word, *found = await run_move(harness, "scheduler/lead", {"owner": owner, "ttl_ms": ttl_ms})
    assert word == "OK"
    return found[:3]


async def record(harness: Harness) -> dict[str, str]:
    """The leader's key, which must be the only one."""
    found = await everything(harness)
    assert set(found) == {"leader"}
    return dict(found["leader"])


async def age(harness: Harness, **fields: int) -> None:
    await harness.client.hset(harness.keys.leader(), mapping=fields)


async def test_the_first_caller_leads(harness: Harness) -> None:
    word, owner, epoch, left, now = await run_move(
        harness, "scheduler/lead", {"owner": "a", "ttl_ms": TTL_MS}
    )

    assert (word, owner, epoch, left) == ("OK", "a", 1, TTL_MS)
    until = str(int(now) + TTL_MS)
    assert await record(harness) == {
        "owner": "a", "epoch": "1", "ttl_ms": str(TTL_MS), "until_ms": until,
    }  # fmt: skip
    assert await harness.client.pttl(harness.keys.leader()) == -1


async def test_another_caller_gets_the_leader_and_changes_nothing(harness: Harness) -> None:
    await lead_reply(harness, "a")
    before = await harness.dump()

    owner, epoch, left = await lead_reply(harness, "b")

    assert (owner, epoch, 0 < left <= TTL_MS) == ("a", 1, True)
    assert await harness.dump() == before


async def test_the_owner_renews_within_its_epoch(harness: Harness) -> None:
    await lead_reply(harness, "a")
    before = int((await record(harness))["until_ms"])
    await age(harness, until_ms=before - 50_000)

    assert await lead_reply(harness, "a") == ["a", 1, TTL_MS]
    assert int((await record(harness))["until_ms"]) >= before


async def test_after_the_term_another_caller_leads_in_the_next_epoch(harness: Harness) -> None:
    await lead_reply(harness, "a")
    await age(harness, until_ms=1)

    assert await lead_reply(harness, "b") == ["b", 2, TTL_MS]
    owner, epoch, _ = await lead_reply(harness, "a")
    assert (owner, epoch) == ("b", 2)


async def test_an_owner_that_returns_after_its_term_begins_a_new_one(harness: Harness) -> None:
    await lead_reply(harness, "a")
    await age(harness, until_ms=1)

    assert await lead_reply(harness, "a") == ["a", 2, TTL_MS]


async def test_a_renewal_may_change_how_long_a_term_is(harness: Harness) -> None:
    await lead_reply(harness, "a")

    assert await lead_reply(harness, "a", 5000) == ["a", 1, 5000]
    assert (await record(harness))["ttl_ms"] == "5000"


async def test_after_a_backward_step_of_the_clock_a_term_is_not_longer(
    harness: Harness,
) -> None:
    await lead_reply(harness, "a")
    until = int((await record(harness))["until_ms"]) + 3_600_000
    await age(harness, until_ms=until)

    assert await lead_reply(harness, "b", 5000) == ["a", 1, TTL_MS]

    assert int((await record(harness))["until_ms"]) < until - 3_000_000
    assert (await record(harness))["owner"] == "a"


async def test_the_client_returns_the_term(harness: Harness) -> None:
    shard = harness.queue._internals.shard
    assert await leader(shard) is None

    first = await lead(shard, "a", ttl_ms=TTL_MS)
    second = await lead(shard, "b", ttl_ms=TTL_MS)
    seen = await leader(shard)

    assert first == Term("a", 1, TTL_MS, first.server_ms)
    assert (second.owner, second.epoch) == ("a", 1)
    assert seen is not None
    assert (seen.owner, seen.epoch, 0 < seen.left_ms <= TTL_MS) == ("a", 1, True)
    assert seen.server_ms >= first.server_ms


async def test_after_an_ended_term_there_is_no_leader(harness: Harness) -> None:
    await lead_reply(harness, "a")
    await age(harness, until_ms=1)

    assert await leader(harness.queue._internals.shard) is None
