"""Limits of keys: so many of a tenant in a time and at once, and no claim looks at who is full."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.model.limit import Limit
from rqueue.model.turns import Rules, Turns
from rqueue.store.leases import Parking, park
from rqueue.store.passage import promote
from tests.house import House, opened
from tests.lua.task.afterwards import mail, parked
from tests.servers import Server


@asynccontextmanager
async def limited(server: Server, *limits: dict[str, Any], **settings: Any) -> AsyncIterator[House]:
    """A house with limits, and ten tasks each of three keys."""
    async with opened(server, limits=list(limits), **settings) as house:
        for key in "abc":
            await house.queue.enqueue_many([{"type": "code", "limit_key": key}] * 10)
        yield house


async def claimed(house: House, n: int = 50, worker: str = "w1") -> list[Lease]:
    """What a worker for everything is given."""
    return await house.queue.claim(worker=worker, n=n)


def by_key(leases: list[Lease]) -> dict[str, int]:
    """How many of each key there are."""
    found = [lease.task.spec.limit_key or "-" for lease in leases]
    return {key: found.count(key) for key in sorted(set(found))}


async def settled(house: House, lease: Lease, way: str) -> None:
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
            await house.queue.cancel(lease.id)
        case _:
            await house.age(lease, 60)
            await house.reaper.tick()


WAYS = ["complete", "fail", "dead", "release", "park", "cancel", "reap"]


async def test_each_key_has_so_many_at_once(server: Server) -> None:
    async with limited(server, {"key": "*", "at_once": 2}) as house:
        assert by_key(await claimed(house)) == {"a": 2, "b": 2, "c": 2}
        assert await claimed(house, worker="w2") == []


async def test_a_key_with_a_limit_of_its_own_has_that_instead(server: Server) -> None:
    limits = [{"key": "*", "at_once": 2}, {"key": "b", "at_once": 5}]
    async with limited(server, *limits) as house:
        assert by_key(await claimed(house)) == {"a": 2, "b": 5, "c": 2}


async def test_a_key_counts_over_the_queue_or_within_a_type(server: Server) -> None:
    limits = [{"key": "a", "at_once": 3}, {"key": "b", "type": "code", "at_once": 3}]
    async with limited(server, *limits) as house:
        for key in "ab":
            await house.queue.enqueue_many([{"type": "review", "limit_key": key}] * 4)

        leases = await claimed(house)

        assert by_key(leases) == {"a": 3, "b": 7, "c": 10}
        of_b = [one.task.type for one in leases if one.task.spec.limit_key == "b"]
        assert of_b.count("code") == 3


async def test_tasks_without_a_key_know_no_limit_of_keys(server: Server) -> None:
    async with limited(server, {"key": "*", "at_once": 1}) as house:
        await house.queue.enqueue_many([{"type": "code"}] * 5)

        assert by_key(await claimed(house)) == {"-": 5, "a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("way", WAYS)
async def test_one_that_leaves_makes_room_for_one_of_its_key(server: Server, way: str) -> None:
    async with limited(server, {"key": "*", "at_once": 2}) as house:
        lease = next(one for one in await claimed(house) if one.task.spec.limit_key == "b")
        assert await claimed(house) == []

        await settled(house, lease, way)

        assert by_key(await claimed(house)) == {"b": 1}
        assert await claimed(house) == []
        in_hand = await house.client.zrange(house.keys.hand("b"), 0, -1)
        assert len(in_hand) == 2


@pytest.mark.parametrize("way", WAYS)
async def test_who_waits_for_room_of_a_key_is_answered(server: Server, way: str) -> None:
    async with opened(server, limits=[{"key": "*", "at_once": 1}]) as house:
        await house.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 2)
        (lease,) = await claimed(house)
        waiter = await parked(house)
        assert await mail(house, waiter) == []

        await settled(house, lease, way)
        if way == "reap":
            await promote(house.queue.shard)

        (line,) = await mail(house, waiter)
        assert line.startswith("tasks ")
        # It has the only place again.
        assert await house.client.smembers(house.keys.full()) == {b"a"}


async def test_a_stale_token_makes_no_room(server: Server) -> None:
    async with limited(server, {"key": "*", "at_once": 1}) as house:
        (lease, *_) = await claimed(house)
        await settled(house, lease, "reap")
        (again, *_) = await claimed(house, worker="w2")
        assert again.task.spec.limit_key == lease.task.spec.limit_key
        before = await house.dump()

        with pytest.raises(Exception, match="lease"):
            await lease.complete()

        assert await house.dump() == before
        assert await claimed(house) == []


async def test_each_key_begins_so_many_in_a_time(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 3, "per_sec": 3600}) as house:
        leases = await claimed(house)
        assert by_key(leases) == {"a": 3, "b": 3, "c": 3}
        for lease in leases:
            await settled(house, lease, "complete")
        assert await claimed(house) == []

        # All are shut until the window lets go of something, and the promoter is told when.
        opens = dict(await house.client.zrange(house.keys.shut(-1), 0, -1, withscores=True))
        seconds, _ = await house.client.time()
        assert opens.keys() == {b"a", b"b", b"c"}
        assert all(3600 <= at / 1000 - seconds < 3700 for at in opens.values())
        assert await house.client.zscore(house.keys.wakes(), "-1") == min(opens.values())
        assert not await house.client.exists(house.keys.turns(-1))


async def lets_go(house: House, key: str) -> None:
    """The window of a key has passed."""
    await house.client.delete(house.keys.limit(f"*@{key}"))
    await house.client.zadd(house.keys.shut(-1), {key: 1})
    await house.client.zadd(house.keys.wakes(), {"-1": 1})


async def test_a_window_that_lets_go_gives_its_key_turns_again(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 3, "per_sec": 3600}) as house:
        await claimed(house)
        await lets_go(house, "b")

        assert by_key(await claimed(house)) == {"b": 3}


async def test_who_waits_for_a_window_of_a_key_is_answered(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 3, "per_sec": 3600}) as house:
        await claimed(house)
        waiter = await parked(house, n=2)
        await lets_go(house, "b")

        await promote(house.queue.shard)

        (line,) = await mail(house, waiter)
        assert len(line.partition("\n")[0].split(" ")) == 6
        # The lane is woken again when the next of its keys may go on.
        following = await house.client.zrange(house.keys.shut(-1), 0, 0, withscores=True)
        assert await house.client.zscore(house.keys.wakes(), "-1") == following[0][1]


async def test_a_claim_that_takes_the_last_places_and_waits_is_woken(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "rate": 2, "per_sec": 3600}]) as house:
        await house.queue.enqueue_many([{"type": "code"}] * 3)

        assert len(await claimed(house, 9)) == 2

        assert await house.client.zscore(house.keys.wakes(), "code") is not None


async def test_a_limit_that_is_raised_holds_at_once(server: Server) -> None:
    async with limited(server, {"key": "*", "rate": 1, "per_sec": 3600}) as house:
        assert by_key(await claimed(house)) == {"a": 1, "b": 1, "c": 1}
        raised = Rules((Limit(key="*", rate=4, per_sec=3600),), Turns())
        house.queue.shard.rules = lambda: raised

        assert by_key(await claimed(house)) == {"a": 3, "b": 3, "c": 3}


async def calls(house: House, n: int = 1) -> int:
    """How many commands a claim takes that gives so many."""
    await house.client.config_resetstat()
    assert len(await claimed(house, n)) == n
    found = await house.client.info("commandstats")
    return sum(stats["calls"] for stats in found.values())


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_claim_costs_the_same_however_many_keys_are_full(
    valkey: Server, enabled: bool
) -> None:
    turns = {"enabled": enabled}
    async with opened(valkey, limits=[{"key": "*", "at_once": 1}], turns=turns) as house:
        tasks = [{"type": "code", "limit_key": f"t{n}"} for n in range(300)]
        await house.queue.enqueue_many(tasks * 3)
        assert len(await claimed(house, 5)) == 5
        few = await calls(house)
        while await claimed(house, 100):
            pass
        await house.queue.enqueue_many([{"type": "code", "limit_key": "late"}] * 2)
        await house.queue.enqueue_many(tasks)

        # It looks for keys whose time has come, in one call more.
        assert await calls(house) <= few + 1


async def test_a_claim_costs_the_same_however_many_tasks_a_key_has(valkey: Server) -> None:
    async with opened(valkey) as house:
        await house.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 10)
        few = await calls(house)

        await house.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 2000)

        assert await calls(house) <= few


async def test_a_claim_looks_at_so_many_keys_and_the_promoter_goes_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.model.turns.MOST_KEYS", 3)
    async with opened(server) as house:
        for key in "abcdefgh":
            await house.queue.enqueue_many([{"type": "code", "limit_key": key}] * 2)
        leases = await claimed(house, 8)
        assert by_key(leases) == dict.fromkeys("abcdefgh", 1)
        await settled(house, leases[-1], "complete")
        rules = Rules((Limit(key="*", at_once=1),))
        house.queue.shard.rules = lambda: rules
        waiter = await parked(house)
        assert await mail(house, waiter) == []

        for _ in range(3):
            await promote(house.queue.shard)

        (line,) = await mail(house, waiter)
        assert line.startswith("tasks ")


async def slowed(house: House, lease: Lease, slow_ms: int = 60_000) -> None:
    """Sets a task aside, and slows down what it is of."""
    await lease.start()
    row = Parking(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", slow_ms)
    assert await park(house.queue.shard, [row]) == ["OK"]


async def test_a_limited_service_slows_its_key_down_and_no_other(server: Server) -> None:
    async with limited(server) as house:
        await house.queue.enqueue("code")
        await house.queue.enqueue("review", limit_key="b")
        lease = next(one for one in await claimed(house, 3) if one.task.spec.limit_key == "b")

        await slowed(house, lease)

        assert by_key(await claimed(house)) == {"-": 1, "a": 9, "c": 9}
        assert (await house.task(lease.id)).state is State.RETRYING
        events = [event for _, event in await house.client.xrange(house.keys.events())]
        assert [(e[b"event"], e[b"key"]) for e in events if b"slowed" in e[b"event"]] == [
            (b"key.slowed", b"b")
        ]
        assert await house.client.smembers(house.keys.slowed()) == {b"@b"}


async def over(house: House, key: str, ago_ms: int, span_ms: int = 10_000) -> None:
    """The rest of a key was over so long ago."""
    seconds, micros = await house.client.time()
    until = seconds * 1000 + micros // 1000 - ago_ms
    await house.client.hset(house.keys.slow(f"@{key}"), mapping={"until": until, "span": span_ms})
    await house.client.zadd(house.keys.shut(-1), {key: until}, xx=True)


async def test_a_key_recovers_step_by_step(server: Server) -> None:
    async with limited(server) as house:
        (lease,) = await claimed(house, 1)
        await slowed(house, lease)
        key = lease.task.spec.limit_key or ""
        assert key not in by_key(await claimed(house))
        found = []

        for ago_ms in (100, 1_100, 2_100):
            await over(house, key, ago_ms)
            found.append(len(await claimed(house)))
            assert await claimed(house) == []

        assert found == [1, 2, 4]


async def test_who_waits_for_a_key_that_was_slowed_down_is_answered(server: Server) -> None:
    async with opened(server) as house:
        await house.queue.enqueue_many([{"type": "code", "limit_key": "a"}] * 3)
        (lease,) = await claimed(house, 1)
        await slowed(house, lease)
        waiter = await parked(house)
        await over(house, "a", 100)
        await house.client.zadd(house.keys.wakes(), {"@a": 1})

        await promote(house.queue.shard)

        (line,) = await mail(house, waiter)
        assert line.startswith("tasks ")


async def test_a_task_of_another_key_replaces_instead_of_debouncing(house: House) -> None:
    first = await house.queue.enqueue("code", limit_key="a", idempotency_key="k", delay=60)

    same = await house.queue.enqueue(
        "code", limit_key="a", idempotency_key="k", delay=60, if_exists="debounce"
    )
    other = await house.queue.enqueue(
        "code", limit_key="b", idempotency_key="k", delay=60, if_exists="debounce"
    )

    assert (same.id, other.id == first.id) == (first.id, False)
    assert (await house.task(first.id)).state is State.CANCELLED
    assert await house.client.hget(house.keys.task(other.id.ulid), "key") == b"b"


async def test_the_turn_of_another_key_keeps_what_is_urgent_not_behind_other_kinds(
    server: Server,
) -> None:
    async with opened(server) as house:
        queue = house.queue
        for key, priority in (("a", 90), ("b", 90), ("urgent", 1)):
            await queue.enqueue("code", {}, limit_key=key, priority=priority)
        await queue.enqueue_many([{"type": "other", "priority": 50}] * 5)

        found = [(lease.task.spec.limit_key or "-") for lease in await claimed(house, 8)]

        # Those whose turn was before its own go ahead of it, and nothing else.
        assert found == ["a", "b", "urgent", "-", "-", "-", "-", "-"]
