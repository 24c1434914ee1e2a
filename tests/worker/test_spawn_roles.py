"""The rights of an agent's worker to spawn tasks under its own name."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Call, Context, State
from rqueue.errors import Forbidden, RQueueError
from tests.harness import opened
from tests.worker.running import ended, working

AGENT, HUMAN = "agent:coder", "human:ada"


async def tried(server: Any, role: Any, work: Any) -> tuple[Any, list[Any]]:
    """The outcome of a handler of a worker with this role, and the creators of all tasks."""
    async with opened(server, principal=AGENT) as harness:
        found: list[Any] = []

        @harness.queue.task("parent", max_attempts=1)
        async def parent(ctx: Context) -> None:
            try:
                found.append(await work(ctx, harness.queue))
            except RQueueError as error:
                found.append(error)

        first = await harness.queue.enqueue("parent", created_by=HUMAN)
        await harness.queue.roles.set(AGENT, role)
        async with working(harness.queue, types=["parent"]):
            await ended(harness.queue, first.id, State.COMPLETED)
        return found[0], [task.spec.created_by async for task in harness.queue.find(type="code")]


async def spawn(ctx: Context, _: Any) -> Any:
    return await ctx.spawn(Call("code"))


async def spawn_as_itself(ctx: Context, _: Any) -> Any:
    return await ctx.spawn(Call("code", options={"created_by": AGENT}))


async def spawn_as_another(ctx: Context, _: Any) -> Any:
    return await ctx.spawn(Call("code", options={"created_by": HUMAN}))


async def enqueue(_: Context, queue: Any) -> Any:
    return await queue.enqueue("code")


@pytest.mark.parametrize("work", [spawn, spawn_as_itself])
async def test_an_agent_spawns_under_its_own_name(server: Any, work: Any) -> None:
    found, creators = await tried(server, "agent", work)

    assert not isinstance(found, RQueueError)
    assert creators == [AGENT]


@pytest.mark.parametrize("work", [spawn_as_another, enqueue])
async def test_an_agent_cannot_create_other_tasks_or_use_another_name(
    server: Any, work: Any
) -> None:
    found, creators = await tried(server, "agent", work)

    assert isinstance(found, Forbidden)
    assert (found.principal, found.role) == (AGENT, "agent")
    assert creators == []


@pytest.mark.parametrize(("work", "by"), [(spawn_as_another, HUMAN), (enqueue, AGENT)])
async def test_an_orchestrator_can_create_other_tasks(server: Any, work: Any, by: str) -> None:
    found, creators = await tried(server, "orchestrator", work)

    assert not isinstance(found, RQueueError)
    assert creators == [by]
