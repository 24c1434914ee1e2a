"""counts: what the counters say is what a recount finds, after whatever has happened."""

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
from rqueue.model.scale import Tier
from rqueue.model.state import IN_HAND
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import ask

TERMS: dict[str, Argument] = {"rates": "[[1,100000]]", "bounds": "[10000000,30000000]"}
STEPS = 150


class Hands:
    """Makes one random move after another, as a careless crowd would."""

    def __init__(self, house: House, random: Random) -> None:
        self.house = house
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
        self.tasks.append((await self.house.queue.enqueue(type, {}, max_attempts=2, **chosen)).id)

    async def claim(self) -> None:
        worker = self.random.choice(["w1", "w2"])
        self.leases += await self.house.queue.claim(worker=worker, n=self.random.randint(1, 3))

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
        queue, task = self.house.queue, self.task()
        moves: list[Callable[[], Awaitable[object]]] = [
            lambda: queue.cancel(task), lambda: queue.revive(task), lambda: queue.discard(task),
            lambda: queue.reschedule(task, delay=60), lambda: queue.run_now(task),
            lambda: queue.cancel(task, dependents="unblock"), lambda: queue.revive(task, delay=60),
        ]  # fmt: skip
        await self.random.choice(moves)()

    async def tick(self) -> None:
        for ulid in await self.house.client.zrange(self.house.keys.delayed(), 0, -1):
            await self.house.make_due(ulid.decode())
        await self.house.promoter.tick()

    async def reap(self) -> None:
        for lease in self.random.sample(self.leases, min(5, len(self.leases))):
            key = self.house.keys.task(lease.id.ulid)
            state, token = await self.house.client.hmget(key, "state", "token")
            if token == lease.token.encode() and state.decode() in IN_HAND:
                await self.house.age(lease, 60)
        await self.house.reaper.tick()

    async def expire(self) -> None:
        task = self.task()[-26:]
        await self.house.client.zadd(self.house.keys.deadlines(), {task: 1}, xx=True)
        await self.house.promoter.tick()

    def task(self) -> str:
        return self.random.choice(self.tasks)


async def recount(house: House) -> Counter[State]:
    """The tasks by state, from their hashes."""
    keys = await house.client.keys(house.keys.task("*"))
    return Counter([State((await house.client.hget(key, "state")).decode()) for key in keys])


@pytest.mark.parametrize("seed", range(4))
async def test_the_counters_equal_a_recount(house: House, seed: int) -> None:
    hands, passed = Hands(house, Random(seed)), set[State]()
    await hands.enqueue()

    for step in range(STEPS):
        await hands.step()
        if step % 10:
            continue
        counts, found = await house.queue.counts(), await recount(house)
        assert {state: number for state, number in counts.by_state.items() if number} == found
        assert counts.submitted == sum(found.values())
        assert sum(counts.by_tier.values()) == found[State.READY]
        passed |= set(found)

    assert len(passed) >= 7


@pytest.mark.parametrize("seed", range(4))
async def test_each_task_is_where_its_state_says(house: House, seed: int) -> None:
    hands = Hands(house, Random(seed + 100))
    await hands.enqueue()
    for _ in range(STEPS):
        await hands.step()

    found, client, keys = await recount(house), house.client, house.keys
    in_hand = found[State.CLAIMED] + found[State.RUNNING] + found[State.VALIDATING]
    lanes = [await client.zcard(key) for key in await client.keys(keys.lane("*"))]
    assert sum(lanes) == found[State.READY]
    assert await client.xlen(keys.ready()) == found[State.READY] + in_hand
    assert (await client.xpending(keys.ready(), "workers"))["pending"] == in_hand
    assert await client.zcard(keys.blocked()) == found[State.PENDING]
    assert await client.zcard(keys.dead()) == found[State.DEAD_LETTERED]
    waits = await client.keys(keys.waits("*"))
    timed = [key for key in waits if await client.sismember(key, "@time")]
    assert await client.zcard(keys.delayed()) == found[State.RETRYING] + len(timed)
    assert len(waits) == found[State.PENDING]


async def test_the_reply_has_stats_pauses_and_a_row_a_lane(house: House) -> None:
    for priority in (5, 15, 50):
        await house.queue.enqueue("code", {}, priority=priority)
    await house.queue.pause(type="review")
    before = await house.dump()

    said = await ask(house, "queue/counts", TERMS)

    assert said == ["OK", ["submitted", "3"], ["type=review"], [1, 1, 1, 1]]
    assert await house.dump() == before


async def test_ready_tasks_are_counted_by_the_tier_they_have_reached(house: House) -> None:
    for priority in (5, 15, 15, 90):
        await house.queue.enqueue("code", {}, priority=priority)

    counts = await house.queue.counts()

    assert counts.by_tier == {
        Tier.CRITICAL: 1, Tier.HIGH: 2, Tier.NORMAL: 0, Tier.LOW: 0, Tier.BACKGROUND: 1,
    }  # fmt: skip


async def test_types_are_counted_apart(house: House) -> None:
    await house.running("code")
    await house.queue.enqueue("review")

    counts = await house.queue.counts()

    assert counts.by_type == {"code": {State.RUNNING: 1}, "review": {State.READY: 1}}
    assert (counts["RUNNING"], counts[State.READY], counts.live) == (1, 1, 2)


async def test_an_empty_queue_counts_nothing(house: House) -> None:
    assert await ask(house, "queue/counts", TERMS) == ["OK", [], [], [1, 0, 0, 0]]
    assert (await house.queue.counts()).live == 0
    assert await house.dump() == {}
