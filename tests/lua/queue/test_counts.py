"""counts: the counters equal a recount after any sequence of moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.clock import SYSTEM
from rqueue.errors import RQueueError
from rqueue.store.library import Argument
from rqueue.task.priority import Tier
from rqueue.task.state import LEASED
from tests.harness import Harness
from tests.lua.task.keyspace import run_move

TERMS: dict[str, Argument] = {"rates": "[[1,100000]]", "bounds": "[10000000,30000000]"}
STEPS = 150


class Hands:
    """Makes one random move after another, as a careless crowd would."""

    def __init__(self, harness: Harness, random: Random) -> None:
        self.harness = harness
        self.random = random
        self.tasks: list[str] = []
        self.leases: list[Lease] = []
        self.moves: list[Callable[[], Awaitable[object]]] = [
            *[self.enqueue] * 3, *[self.claim] * 2, *[self.settle] * 8, *[self.operate] * 2,
            self.tick, self.reap, self.expire,
        ]  # fmt: skip

    async def step(self) -> None:
        try:
            await self.random.choice(self.moves)()
        except RQueueError:
            return  # a move that its state forbids: it must count nothing

    async def enqueue(self) -> None:
        key, rule = self.random.choice("xyz"), self.random.choice(["fail", "cancel"])
        options: list[dict[str, Any]] = [
            {},
            {"delay": 60},
            {"priority": 5},
            {"idempotency_key": key, "if_exists": "replace"},
            {"depends_on": [self.task()]} if self.tasks else {},
            {"deadline": SYSTEM.now() + timedelta(hours=1), "on_deadline": rule},
        ]
        chosen = self.random.choice(options)
        type = self.random.choice(["code", "review"])
        self.tasks.append((await self.harness.queue.enqueue(type, {}, max_attempts=2, **chosen)).id)

    async def claim(self) -> None:
        worker = self.random.choice(["w1", "w2"])
        self.leases += await self.harness.queue.claim(worker=worker, n=self.random.randint(1, 3))

    async def settle(self) -> None:
        if not self.leases:
            return
        lease = self.random.choice(self.leases[-8:])
        moves: list[Callable[[], Awaitable[object]]] = [
            lease.start, lease.start, lease.validate, lease.complete, lease.fail, lease.release,
            lambda: lease.park(60), lambda: lease.fail(permanent=True),
        ]  # fmt: skip
        await self.random.choice(moves)()

    async def operate(self) -> None:
        queue, task = self.harness.queue, self.task()
        moves: list[Callable[[], Awaitable[object]]] = [
            lambda: queue.cancel(task),
            lambda: queue.dead.retry(task), lambda: queue.dead.discard(task),
            lambda: queue.reschedule(task, delay=60), lambda: queue.run_now(task),
            lambda: queue.cancel(task, dependents="unblock"),
            lambda: queue.dead.retry(task, delay=60),
        ]  # fmt: skip
        await self.random.choice(moves)()

    async def tick(self) -> None:
        for ulid in await self.harness.client.zrange(self.harness.keys.delayed(), 0, -1):
            await self.harness.make_due(ulid.decode())
        await self.harness.promoter.tick()

    async def reap(self) -> None:
        for lease in self.random.sample(self.leases, min(5, len(self.leases))):
            key = self.harness.keys.task(lease.id.ulid)
            state, token = await self.harness.client.hmget(key, "state", "token")
            if token == lease.token.encode() and state.decode() in LEASED:
                await self.harness.age(lease, 60)
        await self.harness.reaper.tick()

    async def expire(self) -> None:
        task = self.task()[-26:]
        await self.harness.client.zadd(self.harness.keys.deadlines(), {task: 1}, xx=True)
        await self.harness.promoter.tick()

    def task(self) -> str:
        return self.random.choice(self.tasks)


async def recount(harness: Harness) -> Counter[State]:
    """The tasks by state, from their hashes."""
    keys = await harness.client.keys(harness.keys.task("*"))
    return Counter([State((await harness.client.hget(key, "state")).decode()) for key in keys])


@pytest.mark.parametrize("seed", range(4))
async def test_the_counters_equal_a_recount(harness: Harness, seed: int) -> None:
    hands, passed = Hands(harness, Random(seed)), set[State]()
    await hands.enqueue()

    for step in range(STEPS):
        await hands.step()
        if step % 10:
            continue
        counts, found = await harness.queue.counts(), await recount(harness)
        assert {state: number for state, number in counts.by_state.items() if number} == found
        assert counts.submitted == sum(found.values())
        assert sum(counts.by_tier.values()) == found[State.READY]
        passed |= set(found)

    assert len(passed) >= 7


@pytest.mark.parametrize("seed", range(4))
async def test_each_task_is_in_the_indexes_of_its_state(harness: Harness, seed: int) -> None:
    hands = Hands(harness, Random(seed + 100))
    await hands.enqueue()
    for _ in range(STEPS):
        await hands.step()

    found, client, keys = await recount(harness), harness.client, harness.keys
    leased = found[State.CLAIMED] + found[State.RUNNING] + found[State.VALIDATING]
    lanes = [await client.zcard(key) for key in await client.keys(keys.lane("*"))]
    assert sum(lanes) == found[State.READY]
    assert await client.xlen(keys.ready()) == found[State.READY] + leased
    assert (await client.xpending(keys.ready(), "workers"))["pending"] == leased
    assert await client.zcard(keys.blocked()) == found[State.PENDING]
    assert await client.zcard(keys.dead()) == found[State.DEAD_LETTERED]
    waits = await client.keys(keys.waits("*"))
    timed = [key for key in waits if await client.sismember(key, "@time")]
    assert await client.zcard(keys.delayed()) == found[State.RETRYING] + len(timed)
    assert len(waits) == found[State.PENDING]


async def test_the_reply_has_stats_pauses_and_a_row_for_each_lane(harness: Harness) -> None:
    for priority in (5, 15, 50):
        await harness.queue.enqueue("code", {}, priority=priority)
    await harness.queue.pause(type="review")
    before = await harness.dump()

    reply = await run_move(harness, "queue/counts", TERMS)

    assert reply == ["OK", ["submitted", "3"], ["type=review"], [1, 1, 1, 1]]
    assert await harness.dump() == before


async def test_ready_tasks_are_counted_by_the_tier_they_have_reached(harness: Harness) -> None:
    for priority in (5, 15, 15, 90):
        await harness.queue.enqueue("code", {}, priority=priority)

    counts = await harness.queue.counts()

    assert counts.by_tier == {
        Tier.CRITICAL: 1, Tier.HIGH: 2, Tier.NORMAL: 0, Tier.LOW: 0, Tier.BACKGROUND: 1,
    }  # fmt: skip


async def test_types_are_counted_separately(harness: Harness) -> None:
    await harness.running("code")
    await harness.queue.enqueue("review")

    counts = await harness.queue.counts()

    assert counts.by_type == {"code": {State.RUNNING: 1}, "review": {State.READY: 1}}
    assert (counts["RUNNING"], counts[State.READY], counts.live) == (1, 1, 2)


async def test_an_empty_queue_counts_nothing(harness: Harness) -> None:
    assert await run_move(harness, "queue/counts", TERMS) == ["OK", [], [], [1, 0, 0, 0]]
    assert (await harness.queue.counts()).live == 0
    assert await harness.dump() == {}
