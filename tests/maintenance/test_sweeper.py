"""The sweeper finds tasks that no index has, repairs and counts them; a consistent
shard counts nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
import redis

from rqueue import Call, State
from rqueue.maintenance import sweeper as service
from rqueue.maintenance.janitor import Janitor
from rqueue.maintenance.sweeper import Sweeper, Swept
from rqueue.store.library import Library
from rqueue.task.lane import Lane
from tests.harness import Harness, opened
from tests.lua.repair.broken import entry_of, one_of_each, repaired
from tests.machine.pairs import LANE, MOVES, STATES, TENANT_LANE, scenario_in
from tests.machine.server_shard import ServerShard, library_with_clock
from tests.queue.until import claims_waiting
from tests.servers import Server

# The first words of the sorted sets that lanes of keys have.
OF_KEYS_ALONE = ("keyed", "heads", "turns", "shut", "hand")


def a_sweeper(harness: Harness) -> Sweeper:
    return Sweeper(harness.queue._internals.shard)


async def test_an_empty_shard_stays_empty(harness: Harness) -> None:
    assert await a_sweeper(harness).tick() == Swept()
    assert await harness.dump() == {}


async def test_a_consistent_shard_is_not_changed_and_nothing_is_counted(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await one_of_each(harness)
    before = await harness.dump()
    sweeper = a_sweeper(harness)

    with caplog.at_level(logging.DEBUG, "rqueue.scheduler"):
        ticks = [await sweeper.tick() for _ in range(3)]

    assert ticks == [Swept()] * 3
    assert await harness.dump() == before
    assert caplog.records == []


async def test_all_inconsistencies_are_repaired(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = await one_of_each(harness)
    keys, client = harness.keys, harness.client
    lane = int(await client.hget(keys.task(tasks["ready"]), "lane"))
    await client.zrem(keys.lane(lane), tasks["ready"])
    await client.zrem(keys.delayed(), tasks["retrying"])
    await client.xack(keys.ready(), "workers", await entry_of(harness, tasks["running"]))
    await client.xdel(keys.ready(), await entry_of(harness, tasks["claimed"]))
    await client.zadd(keys.lane(lane), {"GONE": 1, tasks["dead"]: 2})
    await client.xadd(keys.ready(), {"task": "GONE"})

    with caplog.at_level(logging.WARNING, "rqueue.scheduler"):
        swept = await a_sweeper(harness).tick()

    # The lease on the claimed task's entry, which is gone, goes before the task gets another.
    assert swept == Swept(mended=4, pruned=2, entries=2)
    assert await repaired(harness) == swept.repaired == 8
    assert [line.getMessage() for line in caplog.records] == ["8 inconsistencies repaired"]
    assert await a_sweeper(harness).tick() == Swept()
    for name, state in (("ready", State.READY), ("running", State.RUNNING)):
        assert (await harness.task(tasks[name])).state is state
    assert len(await harness.queue.claim(worker="w9", types=["eight"])) == 1


async def test_a_task_marked_as_orphan_is_repaired_and_claimed(harness: Harness) -> None:
    calls = [Call("code", {}, {})] * 3
    tasks = [handle.id.ulid for handle in await harness.queue.enqueue_many(calls)]
    await harness.client.xdel(
        harness.keys.ready(), *[await entry_of(harness, task) for task in tasks]
    )
    assert await harness.queue.claim(worker="w1", types=["code"], n=3) == []

    assert (await a_sweeper(harness).tick()).mended == 3

    leases = await harness.queue.claim(worker="w1", types=["code"], n=3)
    assert sorted(lease.id.ulid for lease in leases) == sorted(tasks)


async def test_a_waiting_claim_gets_a_repaired_task(harness: Harness) -> None:
    await harness.queue.cancel((await harness.queue.enqueue("code")).id)
    task = (await harness.queue.enqueue("code")).id
    await harness.client.zrem(harness.keys.lane(1), task.ulid)
    waiting = asyncio.create_task(harness.queue.claim(worker="w1", types=["code"], wait=20))
    await claims_waiting(harness, 1)

    await a_sweeper(harness).tick()
    await harness.promoter.tick()

    assert [lease.id for lease in await waiting] == [task]


async def test_a_tick_is_bounded_and_the_next_continues(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEPS", 1)
    await harness.queue.enqueue_many([Call("code", {}, {})] * 1500)
    await harness.client.delete(harness.keys.lane(1))
    sweeper = a_sweeper(harness)

    ticks = [(await sweeper.tick()).mended]
    while sweeper.cursor != "0":
        ticks.append((await sweeper.tick()).mended)

    assert len(ticks) > 2
    assert max(ticks) < 1500 == sum(ticks) == await harness.client.zcard(harness.keys.lane(1))


async def test_many_stray_stream_entries_take_several_ticks(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEPS", 1)
    for _ in range(600):
        await harness.client.xadd(harness.keys.ready(), {"task": "GONE"})
    sweeper = a_sweeper(harness)

    assert [(await sweeper.tick()).entries for _ in range(4)] == [250, 250, 100, 0]


async def test_two_concurrent_sweepers_repair_each_item_once(harness: Harness) -> None:
    await harness.queue.enqueue_many([Call("code", {}, {})] * 50)
    await harness.client.delete(harness.keys.lane(1))

    ticks = await asyncio.gather(a_sweeper(harness).tick(), a_sweeper(harness).tick())

    assert sum(tick.mended for tick in ticks) == await repaired(harness) == 50
    leases = await harness.queue.claim(worker="w1", n=100)
    assert len({lease.id for lease in leases}) == len(leases) == 50


async def test_inconsistent_tenant_keys_are_repaired(server: Server) -> None:
    async with opened(server, limits=[{"key": "*", "at_once": 2}]) as harness:
        await harness.queue.enqueue_many([{"type": "code", "limit_key": key} for key in "abab"])
        (held, *_) = await harness.queue.claim(worker="w1", n=1)
        keys, client = harness.keys, harness.client
        await client.delete(keys.keyed(-1, "b"), keys.turns(-1), keys.heads(-1), keys.hand("a"))
        await client.zadd(keys.closed_tenants(-1), {"a": float("inf")})
        await client.zadd(keys.hand("b"), {"GONE": -1, held.id.ulid: -1})
        await client.zadd(keys.turns(-1), {"ghost": 0})

        for _ in range(3):
            await a_sweeper(harness).tick()
            await Janitor(harness.queue._internals.shard).tick()

        assert await client.zrange(keys.hand("a"), 0, -1) == [held.id.ulid.encode()]
        assert not await client.exists(keys.hand("b"))
        assert await client.zrange(keys.turns(-1), 0, -1) == [b"b", b"a"]
        left = await harness.queue.claim(worker="w2", n=9)
        assert sorted(one.task.spec.limit_key or "" for one in left) == ["a", "b", "b"]
        for lease in [held, *left]:
            await lease.start()
            await lease.complete()
        assert not await client.exists(keys.hand("a"), keys.hand("b"), keys.lane(-1))


@pytest.fixture
def server_shard(valkey: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerShard]:
    library: Library = library_with_clock(tmp_path_factory.mktemp("sweep") / "lua")
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        yield ServerShard(client, library)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("lane", [LANE, TENANT_LANE], ids=["plain", "keyed"])
@pytest.mark.parametrize("state", STATES)
def test_after_every_move_there_is_nothing_to_repair(
    state: str, lane: Lane, server_shard: ServerShard
) -> None:
    for move in MOVES:
        scenario = scenario_in(state, server_shard, lane)
        scenario.move(move)
        before = server_shard.dump()

        indexes = ["delayed", "blocked", "dead", "deadlines", "handoffs", "lane:1", "lane:2"]
        indexes += [name for name in before.kinds if name.partition(":")[0] in OF_KEYS_ALONE]
        tasks = [(task,) for task in before.named("task:")]
        found = [server_shard.run("repair/mend", {"parents": 8}, tasks)[1]]
        found.append(server_shard.run("repair/sweep", {"from": "-", "limit": 100})[2])
        for index in indexes:
            args: dict[str, str | int] = {"index": index, "cursor": "0", "limit": 100}
            found.append(server_shard.run("repair/prune", args)[2])

        assert (move, sum(found)) == (move, 0)
        assert server_shard.dump() == before
