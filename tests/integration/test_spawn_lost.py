"""Spawns whose replies are lost, and workers that die meanwhile: every child is spawned once, and
the parent continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Call, Context, State
from rqueue.core import spawn as spawn_moves
from rqueue.core.spawn import SpawnDraft
from rqueue.task.ids import TaskId, new_task_ids
from tests.harness import Harness
from tests.integration.processes import Env
from tests.integration.proxy import How, Proxy, proxied_harness
from tests.servers import Server
from tests.worker.running import ended, working


@pytest.fixture
async def proxied(valkey: Server) -> AsyncIterator[tuple[Harness, Proxy]]:
    async with proxied_harness(valkey) as found:
        yield found


def families(harness: Harness) -> None:
    """`parent` spawns one child without waiting and waits for three others."""

    @harness.queue.task("child")
    async def child(n: int) -> int:
        return n

    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        await ctx.spawn(child.call(0), key="left")
        return await ctx.gather(*[child.call(n) for n in (1, 2, 3)])


async def members(harness: Harness, parent: TaskId) -> list[str]:
    """The tasks of a parent's DAG."""
    key = harness.keys.members(parent.ulid)
    return [member.decode() for member in await harness.client.lrange(key, 0, -1)]


@pytest.mark.parametrize("how", ["close", "hang"])
@pytest.mark.parametrize("which", [1, 2, 3, 4])
async def test_a_spawn_with_a_lost_reply_spawns_once(
    proxied: tuple[Harness, Proxy], which: int, how: How
) -> None:
    harness, proxy = proxied
    families(harness)
    sha, seen = harness.queue._internals.shard.runner.moves["dag/spawn"].function.encode(), 0

    def fits(words: list[bytes]) -> bool:
        nonlocal seen
        seen += sha in words[:2]
        return sha in words[:2] and seen == which

    proxy.lose(fits, how)
    async with working(harness.queue):
        handle = await harness.queue.enqueue("parent")
        found = await handle.result(timeout=20)

    task = await harness.task(handle.id)
    assert (proxy.lost, found) == (1, [1, 2, 3])
    assert len(await members(harness, handle.id)) == 5
    assert (task.attempts, task.reclaims) == (0, 0)


async def test_spawn_and_wait_are_one_step(proxied: tuple[Harness, Proxy]) -> None:
    """The worker dies before it knows that its task was suspended: nothing is left to reap."""
    harness, proxy = proxied
    families(harness)
    lease = await harness.running("parent")
    sha = harness.queue._internals.shard.runner.moves["dag/spawn"].function.encode()
    drafts = [harness.queue._internals.drafter.draft(Call("child", {"n": n})) for n in (1, 2, 3)]
    seedlings = [
        SpawnDraft(str(key), id, draft)
        for key, id, draft in zip((1, 2, 3), new_task_ids(3), drafts, strict=True)
    ]
    proxy.lose(lambda words: sha in words[:2], "close", times=1000)

    dying = asyncio.create_task(
        spawn_moves.spawn(harness.queue._internals.shard, lease.held, seedlings, wait="success")
    )
    waits = await ended(harness.queue, lease.id, State.PENDING)
    dying.cancel()
    await asyncio.wait({dying})
    proxy.loss = None
    await harness.reaper.tick()

    assert len(waits.blocked_by) == 3
    assert await harness.client.xlen(harness.keys.ready()) == 3
    async with working(harness.queue):
        task = await ended(harness.queue, lease.id, State.COMPLETED)
    assert (task.result, task.attempts, task.reclaims) == ([1, 2, 3], 0, 0)
    # The three were found by their keys, and the missing one was spawned.
    assert len(await members(harness, lease.id)) == 5


async def test_suspended_tasks_survive_a_killed_worker(env: Env) -> None:
    env.fleet.worker(), env.fleet.worker()
    await env.up(2)
    handle = await env.harness.queue.enqueue("fan-out", {"count": 6, "seconds": 0.5})
    await env.events.until("begin", count=7)
    first = await env.holder(handle.id.ulid)

    first.kill()

    assert await handle.result(timeout=30) == 6
    tasks = await members(env.harness, handle.id)
    await env.ended(tasks)
    parent = await env.harness.task(handle.id)
    assert len(tasks) == 7
    # Only running tasks were lost with their worker; the suspended one had no lease.
    assert (parent.attempts, parent.reclaims) == (0, 0)
    assert len(env.events.lines("begin", handle.id.ulid)) == 2
    env.once_a_lease()


async def test_a_worker_killed_while_spawning_spawns_each_task_once(env: Env) -> None:
    """Whenever it dies, the next attempt finds the existing children and spawns the rest."""
    env.fleet.worker()
    await env.up(1)
    handle = await env.harness.queue.enqueue("fan-out", {"count": 1000}, max_attempts=3)
    first = await env.holder(handle.id.ulid)
    await asyncio.wait_for(some_spawned(env.harness, handle.id), 10)

    first.kill()
    env.fleet.worker()

    assert await handle.result(timeout=40) == 1000
    assert len(await members(env.harness, handle.id)) == 1001


async def some_spawned(harness: Harness, parent: TaskId) -> None:
    """Waits until the first children exist."""
    while not await harness.client.hlen(harness.keys.spawned(parent.ulid)):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
