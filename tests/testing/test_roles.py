"""Roles in memory are those of the server."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Call, Context, Queue, RQueueError
from rqueue.errors import Forbidden
from rqueue.fleet.roles import set_role
from rqueue.testing import memory

AGENT = "agent:coder"
PLAN = {"tasks": [{"type": "code"}]}


def a_queue(**settings: Any) -> Queue:
    return Queue("roles", url="redis://localhost:1", principal=AGENT, **settings)


async def test_an_agent_creates_nothing() -> None:
    queue = a_queue(default_role="agent")

    with memory(queue) as box:
        with pytest.raises(Forbidden):
            await queue.enqueue("code")
        with pytest.raises(Forbidden):
            await queue.dags.submit(PLAN)
        assert box.tasks() == []
        for named in (AGENT, "human:ada"):
            with pytest.raises(Forbidden):
                await queue.roles.set(named, "human")
            with pytest.raises(Forbidden):
                await queue.roles.drop(named)
        assert await queue.roles.list() == {}
        await set_role(queue._internals.shard, AGENT, "human", by=None)
        assert await queue.roles.list() == {AGENT: "human"}
        await queue.enqueue("code")
        await queue.dags.submit(PLAN)
        assert [task.spec.created_by for task in box.tasks()] == [AGENT, AGENT]
        await queue.roles.drop(AGENT)
        assert await queue.roles.list() == {}
        with pytest.raises(Forbidden):
            await queue.enqueue("code")


async def test_an_agent_spawns_in_its_own_name() -> None:
    queue = a_queue()
    refused: list[RQueueError] = []

    @queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        await ctx.spawn(Call("code"))
        try:
            await ctx.spawn(Call("code", options={"created_by": "human:ada"}))
        except RQueueError as error:
            refused.append(error)

    with memory(queue) as box:
        await queue.enqueue("parent")
        await queue.roles.set(AGENT, "agent")
        await box.run_until_idle(types=["parent"])
        assert [task.spec.created_by for task in box.tasks(type="code")] == [AGENT]
    assert [str(error).split(" and")[0] for error in refused] == [f"{AGENT} has the role agent"]
