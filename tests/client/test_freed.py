"""Places and money that a task gives back when it leaves a worker's hands: whoever waits for them
is answered in the same call, whichever way it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.model.lane import Lane
from rqueue.store.submits import lanes_text
from tests.house import House, opened
from tests.lua.dag.test_spawn import row, spawn
from tests.servers import Server

PRICE = 1.0
LIMITS: dict[str, dict[str, Any]] = {
    "type": {"type": "code", "at_once": 1},
    "queue": {"at_once": 1},
    "key": {"key": "a", "at_once": 1},
    "keys of a type": {"type": "code", "key": "*", "at_once": 1},
}


async def cancelled(house: House, lease: Lease) -> None:
    await house.queue.cancel(lease.id)


async def suspended(house: House, lease: Lease) -> None:
    """It waits for one that it spawns, and that is not due for long."""
    child, lanes = row("k", delay=3_600_000), lanes_text((Lane("code", 0.1),))
    assert "SUSPENDED" in await spawn(house, lease, [child], wait="done", lanes=lanes)


async def furnished(house: House) -> House:
    """With the lane of what is spawned: a new one would have who waits ask anew."""
    await house.queue.enqueue("code", {}, delay=3600)
    return house


ENDS: dict[str, Callable[[House, Lease], Awaitable[object]]] = {
    "complete": lambda _, lease: lease.complete(),
    "fail": lambda _, lease: lease.fail("error", "boom"),
    "die": lambda _, lease: lease.fail("error", "boom", permanent=True),
    "park": lambda _, lease: lease.park(60),
    "release": lambda _, lease: lease.release(),
    "cancel": cancelled,
    "suspend": suspended,
}


async def parked(house: House, worker: str) -> asyncio.Task[list[Lease]]:
    """A claim that waits: nothing may be handed out."""
    asking = asyncio.create_task(house.queue.claim(worker=worker, wait=20))
    while not [key async for key in house.client.scan_iter(f"{house.keys.root}waiting:*")]:
        await asyncio.sleep(0)
        assert not asking.done()
    return asking


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_place_is_given_on_at_once(server: Server, limit: str, end: str) -> None:
    async with opened(server, limits=[LIMITS[limit]]) as house:
        await furnished(house)
        await house.queue.enqueue("code", {}, limit_key="a")
        (lease,) = await house.queue.claim(worker="w1")
        await lease.start()
        waits = await house.queue.enqueue("code", {}, limit_key="a", priority=10)
        asking = await parked(house, "w2")

        await ENDS[end](house, lease)

        # Nobody else ticks here, and who waits does not ask again so soon: the call has answered.
        assert (await house.queue.counts())[State.CLAIMED] == 1
        assert [one.id for one in await asking] == [waits.id]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("account", [{}, {"worker": "w1"}])
async def test_money_is_given_on_at_once(house: House, account: dict[str, Any], end: str) -> None:
    queue = (await furnished(house)).queue
    await queue.set_budget(PRICE, **account)
    await queue.enqueue("code", {}, estimated_cost_usd=PRICE)
    (lease,) = await queue.claim(worker="w1")
    await lease.start()
    waits = await queue.enqueue("code", {}, estimated_cost_usd=PRICE, priority=10)
    asking = await parked(house, "w1")

    await ENDS[end](house, lease)

    assert (await queue.counts())[State.CLAIMED] == 1
    assert [one.id for one in await asking] == [waits.id]


@pytest.mark.parametrize("end", ENDS)
async def test_the_money_of_a_dag_is_given_on_at_once(house: House, end: str) -> None:
    queue = (await furnished(house)).queue
    async with queue.dag("work", budget_usd=PRICE, on_failure="continue") as dag:
        for _ in range(2):
            dag.add(queue.call("code", estimated_cost_usd=PRICE))
    (lease,) = await queue.claim(worker="w1")
    await lease.start()
    asking = await parked(house, "w2")

    await ENDS[end](house, lease)

    assert (await queue.counts())[State.CLAIMED] == 1
    # What was given back is as good as the one that waits, and was first.
    (other,) = await asking
    assert (other.id == lease.id) is (end == "release")
