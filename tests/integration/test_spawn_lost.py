"""Spawns whose replies are lost, and workers that die around them: every child once, and the parent
goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Call, Context, State
from rqueue.model.ids import TaskId, new_task_ids
from rqueue.store import spawning
from rqueue.store.spawning import Seedling
from tests.house import House
from tests.integration.processes import Site
from tests.integration.proxy import How, Proxy, far_house
from tests.servers import Server
from tests.services.working import ended, working


@pytest.fixture
async def far(valkey: Server) -> AsyncIterator[tuple[House, Proxy]]:
    async with far_house(valkey) as found:
        yield found


def families(house: House) -> None:
    """`parent` leaves one child alone and waits for three."""

    @house.queue.task("child")
    async def child(n: int) -> int:
        return n

    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        await ctx.spawn(child.call(0), key="left")
        return await ctx.gather(*[child.call(n) for n in (1, 2, 3)])


async def members(house: House, parent: TaskId) -> list[str]:
    """The tasks of a parent's DAG."""
    key = house.keys.members(parent.ulid)
    return [member.decode() for member in await house.client.lrange(key, 0, -1)]


@pytest.mark.parametrize("how", ["close", "hang"])
@pytest.mark.parametrize("which", [1, 2, 3, 4])
async def test_a_reply_that_is_lost_spawns_once(
    far: tuple[House, Proxy], which: int, how: How
) -> None:
    house, proxy = far
    families(house)
    sha, seen = house.queue.shard.runner.scripts["dag/spawn"].sha.encode(), 0

    def fits(words: list[bytes]) -> bool:
        nonlocal seen
        seen += sha in words[:2]
        return sha in words[:2] and seen == which

    proxy.lose(fits, how)
    async with working(house.queue):
        handle = await house.queue.enqueue("parent")
        found = await handle.result(timeout=20)

    task = await house.task(handle.id)
    assert (proxy.lost, found) == (1, [1, 2, 3])
    assert len(await members(house, handle.id)) == 5
    assert (task.attempts, task.reclaims) == (0, 0)


async def test_there_is_nothing_between_a_spawn_and_its_wait(far: tuple[House, Proxy]) -> None:
    """The worker dies before it hears that its task was suspended: nothing is to be reaped."""
    house, proxy = far
    families(house)
    lease = await house.running("parent")
    sha = house.queue.shard.runner.scripts["dag/spawn"].sha.encode()
    drafts = [house.queue.drafter.draft(Call("child", {"n": n})) for n in (1, 2, 3)]
    seedlings = [
        Seedling(str(key), id, draft)
        for key, id, draft in zip((1, 2, 3), new_task_ids(3), drafts, strict=True)
    ]
    proxy.lose(lambda words: sha in words[:2], "close", times=1000)

    dying = asyncio.create_task(
        spawning.spawn(house.queue.shard, lease.held, seedlings, wait="success")
    )
    waits = await ended(house.queue, lease.id, State.PENDING)
    dying.cancel()
    await asyncio.wait({dying})
    proxy.loss = None
    await house.reaper.tick()

    assert len(waits.blocked_by) == 3
    assert await house.client.xlen(house.keys.ready()) == 3
    async with working(house.queue):
        task = await ended(house.queue, lease.id, State.COMPLETED)
    assert (task.result, task.attempts, task.reclaims) == ([1, 2, 3], 0, 0)
    # The three were found by their keys, and the one that was not there yet was spawned.
    assert len(await members(house, lease.id)) == 5


async def test_a_worker_is_killed_whose_tasks_wait_for_others(site: Site) -> None:
    site.fleet.worker(), site.fleet.worker()
    await site.up(2)
    handle = await site.house.queue.enqueue("brood", {"count": 6, "seconds": 0.5})
    await site.book.until("begin", count=7)
    first = await site.holder(handle.id.ulid)

    first.kill()

    assert await handle.result(timeout=30) == 6
    tasks = await members(site.house, handle.id)
    await site.ended(tasks)
    parent = await site.house.task(handle.id)
    assert len(tasks) == 7
    # Only those that ran were lost with their worker; the one that waited was in no hands.
    assert (parent.attempts, parent.reclaims) == (0, 0)
    assert len(site.book.lines("begin", handle.id.ulid)) == 2
    site.once_a_lease()


async def test_a_worker_is_killed_while_it_spawns(site: Site) -> None:
    """Whenever it dies, the next attempt finds what is there and adds the rest."""
    site.fleet.worker()
    await site.up(1)
    handle = await site.house.queue.enqueue("brood", {"count": 1000}, max_attempts=3)
    first = await site.holder(handle.id.ulid)
    await asyncio.wait_for(some_spawned(site.house, handle.id), 10)

    first.kill()
    site.fleet.worker()

    assert await handle.result(timeout=40) == 1000
    assert len(await members(site.house, handle.id)) == 1001


async def some_spawned(house: House, parent: TaskId) -> None:
    """Returns when the first children are there."""
    while not await house.client.hlen(house.keys.spawned(parent.ulid)):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
