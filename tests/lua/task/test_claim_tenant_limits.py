"""Limits of tenants: a rate and a concurrency for each, and no claim checks the full ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.core.leases import Parked, park
from rqueue.core.timers import promote
from rqueue.task.limits import Limit, Rules, Turns
from tests.harness import Harness, opened
from tests.lua.task.keyspace import mailbox_lines, waiting_claim
from tests.servers import Server


@asynccontextmanager
async def limited(
    server: Server, *limits: dict[str, Any], **settings: Any
) -> AsyncIterator[Harness]:
    """A harness with limits, and ten tasks each of three tenants."""
    async with opened(server, limits=list(limits), **settings) as harness:
        for key in "abc":
            await harness.queue.enqueue_many([{"type": "code", "limit_key": key}] * 10)
        yield harness


async def claimed(harness: Harness, n: int = 50, worker: str = "w1") -> list[Lease]:
    """The leases of a claim of all types."""
    return await harness.queue.claim(worker=worker, n=n)


def by_key(leases: list[Lease]) -> dict[str, int]:
    """The number of leases of each tenant."""
    found = [lease.task.spec.limit_key or "-" for lease in leases]
    return {key: found.count(key) for key in sorted(set(found))}


async def settled(harness: Harness, lease: Lease, way: str) -> None:
    """A lease ends in one of all the ways there are."""
    await lease.start()
    match way:
        case "complete":
            await lease.complete()
        case "fail":
            await lease.fail("error", "broken")
        case "dead":
            await lease.fail("error", "broken", permanent=True)
        case "release":
            await lease.release()
        case "park":
            await lease.park(60)
        case "cancel":
            await harness.queue.cancel(lease.id)
        case _:
            await harness.age(lease, 60)
            await harness.reaper.tick()


WAYS = ["complete", "fail", "dead", "release", "park", "cancel", "reap"]


async def test_each_tenant_has_its_concurrency(server: Server) -> None:
    async with limited(server, {"key": "*", "at_once": 2}) as harness:
        assert by_key(await claimed(harness)) == {"a": 2, "b": 2, "c": 2}
        assert await claimed(harness, worker="w2") == []


async def test_a_tenant_with_its_own_limit_has_that_instead(server: Server) -> None:
    limits = [{"key": "*", "at_once": 2}, {"key": "b", "at_once": 5}]
    async with limited(server, *limits) as harness:
        assert by_key(await claimed(harness)) == {"a": 2, "b": 5, "c": 2}


async def test_a_tenant_counts_over_the_queue_or_within_a_type(server: Server) -> None:
    limits = [{"key": "a", "at_once": 3}, {"key": "b", "type": "code", "at_once": 3}]
    async with limited(server, *limits) as harness:
        for key in "ab":
            await harness.queue.enqueue_many([{"type": "review", "limit_key": key}] * 4)

        leases = await claimed(harness)

        assert by_key(leases) == {"a": 3, "b": 7, "c": 10}
        of_b = [one.task.type for one in leases if one.task.spec.limit_key == "b"]
        assert of_b.count("code") == 3


async def test_tasks_without_a_tenant_have_no_tenant_limit(server: Server) -> None:
    async with limited(server, {"key": "*", "at_once": 1}) as harness:
        await harness.queue.enqueue_many([{"type": "code"}] * 5)

        assert by_key(await claimed(harness)) == {"-": 5, "a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("way", WAYS)
async def test_a_task_that_ends_makes_room_for_one_of_its_tenant(server: Server, way: str) -> None:
    async with limited(server, {"key": "*", "at_once": 2}) as harness:
        lease = next(one for one in await claimed(harness) if one.task.spec.limit_key == "b")
        assert await claimed(harness) == []

        await settled(harness, lease, way)

        assert by_key(await claimed(harness)) == {"b": 1}
        assert await claimed(harness) == []
        leased = await harness.client.zrange(harness.keys.hand("b"), 0, -1)
        assert len(leased) == 2


@pytest.mark.parametrize("way", WAYS)
async def test_a_claim_that_waits_for_room_of_a_tenant_is_answered(
    server: Server, way: str
) -> None:
    async with opened(server, limits=[{"key": "*", "at_once": 1}]) as harness:
        await harness.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 2)
        (lease,) = await claimed(harness)
        waiter = await waiting_claim(harness)
        assert await mailbox_lines(harness, waiter) == []

        await settled(harness, lease, way)
        if way == "reap":
            await promote(harness.queue._internals.shard)

        (line,) = await mailbox_lines(harness, waiter)
        assert line.startswith("tasks ")
        # It has the only place again.
        assert await harness.client.smembers(harness.keys.full()) == {b"a"}


async def test_a_stale_token_makes_no_room(server: Server) -> None:
    async with limited(server, {"key": "*", "at_once": 1}) as harness:
        (lease, *_) = await claimed(harness)
        await settled(harness, lease, "reap")
        (again, *_) = await claimed(harness, worker="w2")
        assert again.task.spec.limit_key == lease.task.spec.limit_key
        before = await harness.dump()

        with pytest.raises(Exception, match="lease"):
            await lease.complete()

        assert await harness.dump() == before
        assert await claimed(harness) == []


async def test_each_tenant_has_its_rate(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 3, "per_sec": 3600}) as harness:
        leases = await claimed(harness)
        assert by_key(leases) == {"a": 3, "b": 3, "c": 3}
        for lease in leases:
            await settled(harness, lease, "complete")
        assert await claimed(harness) == []

        # All are closed until the window has room, and `wakes` has the time.
        opens = dict(
            await harness.client.zrange(harness.keys.closed_tenants(-1), 0, -1, withscores=True)
        )
        seconds, _ = await harness.client.time()
        assert opens.keys() == {b"a", b"b", b"c"}
        assert all(3600 <= at / 1000 - seconds < 3700 for at in opens.values())
        assert await harness.client.zscore(harness.keys.wakes(), "-1") == min(opens.values())
        assert not await harness.client.exists(harness.keys.turns(-1))


async def expire_window(harness: Harness, key: str) -> None:
    """Moves the window of a tenant into the past."""
    await harness.client.delete(harness.keys.limit(f"*@{key}"))
    await harness.client.zadd(harness.keys.closed_tenants(-1), {key: 1})
    await harness.client.zadd(harness.keys.wakes(), {"-1": 1})


async def test_a_window_with_room_returns_its_tenant_to_the_turns(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 3, "per_sec": 3600}) as harness:
        await claimed(harness)
        await expire_window(harness, "b")

        assert by_key(await claimed(harness)) == {"b": 3}


async def test_a_claim_that_waits_for_the_window_of_a_tenant_is_answered(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 3, "per_sec": 3600}) as harness:
        await claimed(harness)
        waiter = await waiting_claim(harness, n=2)
        await expire_window(harness, "b")

        await promote(harness.queue._internals.shard)

        (line,) = await mailbox_lines(harness, waiter)
        assert len(line.partition("\n")[0].split(" ")) == 6
        # The lane is woken again when the next tenant opens.
        following = await harness.client.zrange(
            harness.keys.closed_tenants(-1), 0, 0, withscores=True
        )
        assert await harness.client.zscore(harness.keys.wakes(), "-1") == following[0][1]


async def test_a_claim_that_takes_the_last_places_and_waits_is_woken(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "rate": 2, "per_sec": 3600}]) as harness:
        await harness.queue.enqueue_many([{"type": "code"}] * 3)

        assert len(await claimed(harness, 9)) == 2

        assert await harness.client.zscore(harness.keys.wakes(), "code") is not None


async def test_a_raised_limit_applies_at_once(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 1, "per_sec": 3600}) as harness:
        assert by_key(await claimed(harness)) == {"a": 1, "b": 1, "c": 1}
        raised = Rules((Limit(key="*", rate=4, per_sec=3600),), Turns())
        harness.queue._internals.shard.rules = lambda: raised

        assert by_key(await claimed(harness)) == {"a": 3, "b": 3, "c": 3}


async def calls(harness: Harness, n: int = 1) -> int:
    """How many commands a claim takes that gives so many."""
    await harness.client.config_resetstat()
    assert len(await claimed(harness, n)) == n
    found = await harness.client.info("commandstats")
    return sum(stats["calls"] for stats in found.values())


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_claim_costs_the_same_however_many_tenants_are_full(
    valkey: Server, enabled: bool
) -> None:
    turns = {"enabled": enabled}
    async with opened(valkey, limits=[{"key": "*", "at_once": 1}], turns=turns) as harness:
        tasks = [{"type": "code", "limit_key": f"t{n}"} for n in range(300)]
        await harness.queue.enqueue_many(tasks * 3)
        assert len(await claimed(harness, 5)) == 5
        few = await calls(harness)
        while await claimed(harness, 100):
            pass
        await harness.queue.enqueue_many([{"type": "code", "limit_key": "late"}] * 2)
        await harness.queue.enqueue_many(tasks)

        # One more command finds the tenants that are due.
        assert await calls(harness) <= few + 1


async def test_a_claim_costs_the_same_however_many_tasks_a_tenant_has(valkey: Server) -> None:
    async with opened(valkey) as harness:
        await harness.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 10)
        few = await calls(harness)

        await harness.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 2000)

        assert await calls(harness) <= few


async def test_a_claim_checks_a_bounded_number_of_tenants_and_the_promoter_continues(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.task.limits.MAX_TENANTS", 3)
    async with opened(server) as harness:
        for key in "abcdefgh":
            await harness.queue.enqueue_many([{"type": "code", "limit_key": key}] * 2)
        leases = await claimed(harness, 8)
        assert by_key(leases) == dict.fromkeys("abcdefgh", 1)
        await settled(harness, leases[-1], "complete")
        rules = Rules((Limit(key="*", at_once=1),))
        harness.queue._internals.shard.rules = lambda: rules
        waiter = await waiting_claim(harness)
        assert await mailbox_lines(harness, waiter) == []

        for _ in range(3):
            await promote(harness.queue._internals.shard)

        (line,) = await mailbox_lines(harness, waiter)
        assert line.startswith("tasks ")


async def slowed(harness: Harness, lease: Lease, slow_ms: int = 60_000) -> None:
    """Parks a task, and slows down its tenant or type."""
    await lease.start()
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    assert await park(harness.queue._internals.shard, [row]) == ["OK"]


async def test_a_rate_limited_task_slows_down_its_tenant_and_no_other(server: Server) -> None:
    async with limited(server) as harness:
        await harness.queue.enqueue("code")
        await harness.queue.enqueue("review", limit_key="b")
        lease = next(one for one in await claimed(harness, 3) if one.task.spec.limit_key == "b")

        await slowed(harness, lease)

        assert by_key(await claimed(harness)) == {"-": 1, "a": 9, "c": 9}
        assert (await harness.task(lease.id)).state is State.RETRYING
        events = [event for _, event in await harness.client.xrange(harness.keys.events())]
        assert [(e[b"event"], e[b"key"]) for e in events if b"slowed" in e[b"event"]] == [
            (b"key.slowed", b"b")
        ]
        assert await harness.client.smembers(harness.keys.slowed()) == {b"@b"}


async def over(harness: Harness, key: str, ago_ms: int, span_ms: int = 10_000) -> None:
    """Moves the end of a tenant's block into the past."""
    seconds, micros = await harness.client.time()
    until = seconds * 1000 + micros // 1000 - ago_ms
    await harness.client.hset(
        harness.keys.slow(f"@{key}"), mapping={"until": until, "span": span_ms}
    )
    await harness.client.zadd(harness.keys.closed_tenants(-1), {key: until}, xx=True)


async def test_a_tenant_recovers_step_by_step(server: Server) -> None:
    async with limited(server) as harness:
        (lease,) = await claimed(harness, 1)
        await slowed(harness, lease)
        key = lease.task.spec.limit_key or ""
        assert key not in by_key(await claimed(harness))
        found = []

        for ago_ms in (100, 1_100, 2_100):
            await over(harness, key, ago_ms)
            found.append(len(await claimed(harness)))
            assert await claimed(harness) == []

        assert found == [1, 2, 4]


async def test_a_claim_that_waits_for_a_slowed_down_tenant_is_answered(server: Server) -> None:
    async with opened(server) as harness:
        await harness.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 3)
        (lease,) = await claimed(harness, 1)
        await slowed(harness, lease)
        waiter = await waiting_claim(harness)
        await over(harness, "a", 100)
        await harness.client.zadd(harness.keys.wakes(), {"@a": 1})

        await promote(harness.queue._internals.shard)

        (line,) = await mailbox_lines(harness, waiter)
        assert line.startswith("tasks ")


async def test_a_task_of_another_tenant_replaces_instead_of_debouncing(harness: Harness) -> None:
    first = await harness.queue.enqueue("code", limit_key="a", idempotency_key="k", delay=60)

    same = await harness.queue.enqueue(
        "code", limit_key="a", idempotency_key="k", delay=60, if_exists="debounce"
    )
    other = await harness.queue.enqueue(
        "code", limit_key="b", idempotency_key="k", delay=60, if_exists="debounce"
    )

    assert (same.id, other.id == first.id) == (first.id, False)
    assert (await harness.task(first.id)).state is State.CANCELLED
    assert await harness.client.hget(harness.keys.task(other.id.ulid), "key") == b"b"


async def test_the_turn_of_another_tenant_does_not_delay_an_urgent_task_behind_other_lanes(
    server: Server,
) -> None:
    async with opened(server) as harness:
        queue = harness.queue
        for key, priority in (("a", 90), ("b", 90), ("urgent", 1)):
            await queue.enqueue("code", {}, limit_key=key, priority=priority)
        await queue.enqueue_many([{"type": "other", "priority": 50}] * 5)

        found = [(lease.task.spec.limit_key or "-") for lease in await claimed(harness, 8)]

        # Only tasks whose turn was before its own come first.
        assert found == ["a", "b", "urgent", "-", "-", "-", "-", "-"]
