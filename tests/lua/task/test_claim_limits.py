"""Limits of the configuration: rate and concurrency of a type or of the queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.counts import answer_all
from rqueue.core.timers import promote
from tests.harness import Harness, opened
from tests.lua.task.keyspace import mailbox_lines, waiting_claim
from tests.servers import Server


@asynccontextmanager
async def limited(server: Server, **limit: Any) -> AsyncIterator[Harness]:
    """A harness with one limit, and tasks of two types."""
    async with opened(server, limits=[limit]) as harness:
        for type in ("code", "review"):
            await harness.queue.enqueue_many([{"type": type}] * 20)
        yield harness


async def claimed(harness: Harness, n: int = 50, worker: str = "w1") -> list[Lease]:
    """The leases of a claim of all types."""
    return await harness.queue.claim(worker=worker, n=n)


def types(leases: list[Lease]) -> dict[str, int]:
    """How many of each type there are."""
    found = [lease.task.type for lease in leases]
    return {type: found.count(type) for type in sorted(set(found))}


async def forgotten(harness: Harness, what: str) -> None:
    """The window of a limit has passed."""
    await harness.client.delete(harness.keys.limit(what))


async def test_the_concurrency_of_a_type_is_limited(server: Server) -> None:
    async with limited(server, type="code", at_once=3) as harness:
        leases = await claimed(harness)

        assert types(leases) == {"code": 3, "review": 20}
        assert await claimed(harness, worker="w2") == []


@pytest.mark.parametrize("way", ["complete", "fail", "release", "park", "cancel"])
async def test_a_task_that_ends_makes_room_for_one(server: Server, way: str) -> None:
    async with limited(server, type="code", at_once=2) as harness:
        leases = [one for one in await claimed(harness) if one.task.type == "code"]
        assert await claimed(harness) == []
        (lease, _) = leases
        await lease.start()

        match way:
            case "complete":
                await lease.complete()
            case "fail":
                await lease.fail("error", "broken", permanent=True)
            case "release":
                await lease.release()
            case "park":
                await lease.park(60)
            case _:
                await harness.queue.cancel(lease.id)

        assert types(await claimed(harness)) == {"code": 1}


@pytest.mark.parametrize("way", ["complete", "fail"])
async def test_a_claim_that_waits_for_room_is_answered(server: Server, way: str) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 1}]) as harness:
        lease = await harness.running()
        await harness.queue.enqueue("code")
        waiter = await waiting_claim(harness)
        assert await mailbox_lines(harness, waiter) == []

        if way == "complete":
            await lease.complete()
        else:
            await lease.fail("error", "broken", permanent=True)

        (line,) = await mailbox_lines(harness, waiter)
        assert line.startswith("tasks ")
        # It has the only place: a claim that waits for the next is answered too.
        assert await harness.client.smembers(harness.keys.crowded()) == {b"code"}


async def test_a_new_task_is_not_delivered_past_a_limit(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 1}]) as harness:
        await harness.running()
        waiter = await waiting_claim(harness)

        await harness.queue.enqueue("code")

        assert await mailbox_lines(harness, waiter) == []


async def test_the_rate_of_a_type_is_limited(server: Server) -> None:
    async with limited(server, type="code", rate=5, per_sec=3600) as harness:
        leases = await claimed(harness)
        for lease in leases:
            await lease.start()
            await lease.complete()

        assert types(leases) == {"code": 5, "review": 20}
        assert await claimed(harness) == []
        opens = await harness.client.zscore(harness.keys.wakes(), "code")
        seconds, _ = await harness.client.time()
        assert 3600 <= opens / 1000 - seconds < 3700

        await forgotten(harness, "code")
        assert types(await claimed(harness)) == {"code": 5}


@asynccontextmanager
async def waiting(server: Server, what: str) -> AsyncIterator[tuple[Harness, Any]]:
    """A claim that waits for the window of a type or of the queue, which was full and has ended;
    no claim has checked it yet.
    """
    type = None if what == "*" else what
    async with opened(server, limits=[{"type": type, "rate": 1, "per_sec": 3600}]) as harness:
        await (await harness.running()).complete()
        await harness.queue.enqueue_many([{"type": "code"}] * 2)
        waiter = await waiting_claim(harness)
        assert await harness.client.zscore(harness.keys.wakes(), what) is not None
        await forgotten(harness, what)
        yield harness, waiter


@pytest.mark.parametrize("what", ["code", "*"])
async def test_a_claim_that_waits_for_a_window_is_answered_when_it_has_room(
    server: Server, what: str
) -> None:
    async with waiting(server, what) as (harness, waiter):
        await promote(harness.queue._internals.shard)
        assert await mailbox_lines(harness, waiter) == []

        await harness.client.zadd(harness.keys.wakes(), {what: 1})
        done = await promote(harness.queue._internals.shard)

        (line,) = await mailbox_lines(harness, waiter)
        assert line.startswith("tasks ")
        # The only place of the next window is taken: a claim that waits then must not wait longer.
        assert done.next_ms == await harness.client.zscore(harness.keys.wakes(), what)


async def test_a_tick_returns_the_time_of_a_gate_that_its_last_answer_closed(
    server: Server,
) -> None:
    async with waiting(server, "code") as (harness, waiter):
        await harness.client.delete(harness.keys.wakes())

        done = await harness.promoter.tick()

        assert len(await mailbox_lines(harness, waiter)) == 1
        assert done.next_ms == await harness.client.zscore(harness.keys.wakes(), "code")
        assert await answer_all(harness.queue._internals.shard) == done.next_ms


async def test_the_queue_has_a_limit_too(server: Server) -> None:
    async with limited(server, rate=7, per_sec=3600, at_once=4) as harness:
        first = await claimed(harness)
        assert len(first) == 4
        for lease in first:
            await lease.start()
            await lease.complete()

        assert len(await claimed(harness)) == 3
        assert await claimed(harness) == []


async def test_leased_tasks_count_in_whatever_lane(server: Server) -> None:
    async with opened(server, limits=[{"type": "code", "at_once": 3}]) as harness:
        await harness.queue.enqueue_many([{"type": "code"}] * 2)
        await harness.queue.enqueue_many([{"type": "code", "required_capabilities": ["gpu"]}] * 3)

        first = await harness.queue.claim(worker="w1", n=9)
        second = await harness.queue.claim(worker="w2", capabilities=["gpu"], n=9)

        assert (len(first), len(second)) == (2, 1)


async def test_started_tasks_are_forgotten_with_their_window(server: Server) -> None:
    async with limited(server, type="code", rate=5, per_sec=60) as harness:
        await claimed(harness)

        assert 60_000 < await harness.client.pttl(harness.keys.limit("code")) <= 120_000


async def test_a_changed_window_counts_tasks_that_began_in_the_old_one(server: Server) -> None:
    async with limited(server, type="code", rate=4, per_sec=1) as harness:
        assert types(await claimed(harness)) == {"code": 4, "review": 20}

        async with opened(server, limits=[{"type": "code", "rate": 5, "per_sec": 600}]) as other:
            assert types(await claimed(other)) == {"code": 1}
            slots = await harness.client.hkeys(harness.keys.limit("code"))
            now_ms = (await harness.client.time())[0] * 1000
            assert all(abs(int(slot) - now_ms) < 60_000 for slot in slots)
