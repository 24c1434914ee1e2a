"""Concurrency slots and money that a leaving task frees are used by waiting claims immediately."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.core.submit import lanes_text
from rqueue.task.lane import Lane
from tests.harness import Harness, opened
from tests.lua.dag.test_spawn import row, spawn
from tests.servers import Server

PRICE = 1.0
LIMITS: dict[str, dict[str, Any]] = {
    "type": {"type": "code", "at_once": 1},
    "queue": {"at_once": 1},
    "key": {"key": "a", "at_once": 1},
    "keys of a type": {"type": "code", "key": "*", "at_once": 1},
}


async def cancelled(harness: Harness, lease: Lease) -> None:
    await harness.queue.cancel(lease.id)


async def suspended(harness: Harness, lease: Lease) -> None:
    """Suspends a task until its child has ended, which is delayed."""
    child, lanes = row("k", delay=3_600_000), lanes_text((Lane("code", 0.1),))
    assert "SUSPENDED" in await spawn(harness, lease, [child], wait="done", lanes=lanes)


async def furnished(harness: Harness) -> Harness:
    """Creates the lane of the child first: a new lane would make waiting claims call again."""
    await harness.queue.enqueue("code", {}, delay=3600)
    return harness


ENDS: dict[str, Callable[[Harness, Lease], Awaitable[object]]] = {
    "complete": lambda _, lease: lease.complete(),
    "fail": lambda _, lease: lease.fail("error", "boom"),
    "die": lambda _, lease: lease.fail("error", "boom", permanent=True),
    "park": lambda _, lease: lease.park(60),
    "release": lambda _, lease: lease.release(),
    "cancel": cancelled,
    "suspend": suspended,
}


async def waiting_claim(harness: Harness, worker: str) -> asyncio.Task[list[Lease]]:
    """Returns a waiting claim; no task is claimable."""
    waiting = asyncio.create_task(harness.queue.claim(worker=worker, wait=20))
    while not [key async for key in harness.client.scan_iter(f"{harness.keys.root}waiting:*")]:
        await asyncio.sleep(0)
        assert not waiting.done()
    return waiting


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_freed_concurrency_slot_is_used_immediately(
    server: Server, limit: str, end: str
) -> None:
    async with opened(server, limits=[LIMITS[limit]]) as harness:
        await furnished(harness)
        await harness.queue.enqueue("code", {}, limit_key="a")
        (lease,) = await harness.queue.claim(worker="w1")
        await lease.start()
        waits = await harness.queue.enqueue("code", {}, limit_key="a", priority=10)
        waiting = await waiting_claim(harness, "w2")

        await ENDS[end](harness, lease)

        # No service runs, and the claim calls again much later: the move itself has answered it.
        assert (await harness.queue.counts())[State.CLAIMED] == 1
        assert [one.id for one in await waiting] == [waits.id]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("account", [{}, {"worker": "w1"}])
async def test_refunded_money_is_used_immediately(
    harness: Harness, account: dict[str, Any], end: str
) -> None:
    queue = (await furnished(harness)).queue
    await queue.budgets.set(PRICE, **account)
    await queue.enqueue("code", {}, estimated_cost_usd=PRICE)
    (lease,) = await queue.claim(worker="w1")
    await lease.start()
    waits = await queue.enqueue("code", {}, estimated_cost_usd=PRICE, priority=10)
    waiting = await waiting_claim(harness, "w1")

    await ENDS[end](harness, lease)

    assert (await queue.counts())[State.CLAIMED] == 1
    assert [one.id for one in await waiting] == [waits.id]


@pytest.mark.parametrize("end", ENDS)
async def test_refunded_money_of_a_dag_is_used_immediately(harness: Harness, end: str) -> None:
    queue = (await furnished(harness)).queue
    async with queue.dag("work", budget_usd=PRICE, on_failure="continue") as dag:
        for _ in range(2):
            dag.add(queue.call("code", estimated_cost_usd=PRICE))
    (lease,) = await queue.claim(worker="w1")
    await lease.start()
    waiting = await waiting_claim(harness, "w2")

    await ENDS[end](harness, lease)

    assert (await queue.counts())[State.CLAIMED] == 1
    # The released task has the same priority as the waiting one, and was enqueued first.
    (other,) = await waiting
    assert (other.id == lease.id) is (end == "release")
