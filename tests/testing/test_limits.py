"""Gates in memory are those of the server: breakers, slow-downs, limits."""

from __future__ import annotations

import asyncio
from typing import Any

from rqueue import Queue, RateLimited, State
from rqueue.testing import memory


def a_queue(**settings: Any) -> Queue:
    return Queue("gates", url="redis://localhost:1", **settings)


async def test_a_limit_of_concurrent_tasks_holds() -> None:
    queue, most, now = a_queue(limits=[{"type": "one", "at_once": 1}]), [0], [0]

    @queue.task("one")
    async def one(n: int) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        now[0] -= 1

    with memory(queue) as box:
        await queue.enqueue_many([one.call(n) for n in range(5)])
        await box.run_until_idle(concurrency=5)
        assert (await queue.counts())[State.COMPLETED] == 5
    assert most == [1]


async def test_a_rate_holds_until_time_moves() -> None:
    queue = a_queue(limits=[{"type": "one", "rate": 2, "per_sec": 60}])

    @queue.task("one")
    async def one(n: int) -> None:
        return None

    with memory(queue) as box:
        await queue.enqueue_many([one.call(n) for n in range(5)])
        await box.run_until_idle()
        assert (await queue.counts())[State.COMPLETED] == 2
        box.advance(61)
        await box.run_until_idle()
        assert (await queue.counts())[State.COMPLETED] == 4


async def test_the_breaker_of_a_failing_type_opens() -> None:
    queue, works = a_queue(breakers={"defaults": {"failure_threshold": 2}}), [False]

    @queue.task("one", max_attempts=1)
    async def one(n: int) -> None:
        if not works[0]:
            raise RuntimeError("down")

    with memory(queue) as box:
        await queue.enqueue_many([one.call(n) for n in range(4)])
        await box.run_until_idle()
        (breaker,) = await queue.limits.breakers()
        assert (breaker.state, breaker.failures) == ("open", 2)
        assert (await queue.counts())[State.READY] == 2

        works[0] = True
        box.advance(61)
        await box.run_until_idle()
        assert (await queue.counts())[State.COMPLETED] == 2
        assert await queue.limits.breakers() == []


async def test_a_rate_limited_task_is_parked_and_runs_again() -> None:
    queue, calls = a_queue(), [0]

    @queue.task("one")
    async def one() -> str:
        calls[0] += 1
        if calls[0] == 1:
            raise RateLimited(30)
        return "done"

    with memory(queue) as box:
        handle = await one.enqueue()
        await box.run_until_idle()
        task = await queue.get(handle.id)
        assert (task.state, task.attempts, task.parks) == (State.RETRYING, 0, 1)

        box.advance(31)
        await box.run_until_idle()
        assert await handle.result(timeout=1) == "done"


async def test_a_slow_down_is_listed_and_lifted() -> None:
    queue, ran = a_queue(), []

    @queue.task("one")
    async def one(n: int) -> None:
        ran.append(n)
        if n == 0:
            raise RateLimited(600)

    with memory(queue) as box:
        await one.enqueue(0)
        await box.run_until_idle()
        await queue.enqueue_many([one.call(n) for n in range(1, 5)])
        await box.run_until_idle()
        (slow,) = await queue.limits.slowdowns()
        assert (slow.type, slow.resting, ran) == ("one", True, [0])

        assert await queue.limits.lift_slowdown("one")
        await box.run_until_idle()
        assert ran == [0, 1, 2, 3, 4]
        assert await queue.limits.slowdowns() == []


async def test_a_rate_limited_task_is_parked_by_a_manual_lease_as_by_a_worker() -> None:
    queue = a_queue()

    with memory(queue):
        handle = await queue.enqueue("code", max_attempts=1)
        (lease,) = await queue.claim(worker="w1")
        state = await lease.fail("rate_limit", retry_after=60)
        task = await handle.task()
        (slow,) = await queue.limits.slowdowns()

    assert (state, task.attempts, task.parks, slow.type) == (State.RETRYING, 0, 1, "code")


async def test_the_slow_down_of_a_tenant_is_lifted_separately() -> None:
    queue, ran = a_queue(), []

    @queue.task("one")
    async def one(who: str) -> None:
        ran.append(who)
        if len(ran) <= 2:
            raise RateLimited(600)

    with memory(queue) as box:
        for who in ("acme", "beta", "acme", "beta"):
            await one.options(limit_key=who).enqueue(who)
            await box.run_until_idle()
        assert ran == ["acme", "beta"]

        assert await queue.limits.lift_slowdown(key="acme")
        await box.run_until_idle()
        assert ran == ["acme", "beta", "acme"]


async def test_tenants_take_turns() -> None:
    queue, ran = a_queue(turns={"weights": {"small": 2}}), []

    @queue.task("one")
    async def one(who: str) -> None:
        ran.append(who)

    with memory(queue) as box:
        for who, number in (("big", 20), ("small", 6)):
            calls = [one.options(limit_key=who).call(who) for _ in range(number)]
            await queue.enqueue_many(calls)
        last = (await one.options(limit_key="small").enqueue("small")).id
        assert (await queue.why(last)).turns == 10
        await box.run_until_idle()

    assert ran[:9] == ["big", "small", "small"] * 3


async def test_a_limit_per_tenant_holds() -> None:
    queue, now, most = a_queue(limits=[{"key": "*", "at_once": 1}]), [0], [0]

    @queue.task("one")
    async def one(n: int) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0)
        now[0] -= 1

    with memory(queue) as box:
        await queue.enqueue_many([one.options(limit_key="a").call(n) for n in range(5)])
        await box.run_until_idle(concurrency=5)
        assert (await queue.counts())[State.COMPLETED] == 5
    assert most == [1]


async def test_jump_moves_the_time_to_the_opening_of_a_window() -> None:
    queue = a_queue(limits=[{"key": "*", "rate": 2, "per_sec": 60}])

    @queue.task("one")
    async def one(n: int) -> None:
        return None

    with memory(queue) as box:
        for key in "ab":
            await queue.enqueue_many([one.options(limit_key=key).call(n) for n in range(5)])
        await box.run_until_idle()
        assert (await queue.counts())[State.COMPLETED] == 4
        (ready, *_) = [task async for task in queue.find(states=[State.READY])]
        (hold,) = [h for h in (await queue.why(ready.id)).holds if h.word == "limit"]
        assert hold.until is not None

        await box.run_until_idle(advance=True)
        assert (await queue.counts())[State.COMPLETED] == 10


async def test_a_rate_limited_service_slows_a_tenant_down() -> None:
    queue, calls = a_queue(), [0]

    @queue.task("one")
    async def one(who: str) -> None:
        calls[0] += 1
        if calls[0] == 1:
            raise RateLimited(600)

    with memory(queue) as box:
        for who in ("a", "b"):
            await queue.enqueue_many([one.options(limit_key=who).call(who) for _ in range(3)])
        await box.run_until_idle()

        left = [task.spec.limit_key async for task in queue.find(states=[State.READY])]
        assert left == ["a", "a"]
