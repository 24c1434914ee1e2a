"""The inbox submits as service:inbox, with the role that the queue gives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.house import House, opened
from tests.inbox import add, an_inbox, left, refused, send

PLAN = json.dumps({"tasks": [{"type": "code", "name": "a"}]})


async def test_with_the_role_of_an_agent_everything_is_set_aside(server: Any) -> None:
    async with opened(server, inbox_role="agent") as house:
        await send(house, {"type": "code"}, {"type": "code", "created_by": "human:ada"})
        await add(house, "dag", PLAN)

        done = await an_inbox(house).tick()

        assert (done.taken, done.rejected, await left(house)) == (0, 3, 0)
        assert [at for at, _ in await refused(house)] == ["0", "1", ""]
        assert all("service:inbox has the role agent" in why for _, why in await refused(house))
        kept = {key.removeprefix(house.keys.root) for key in await house.dump()}
        assert kept == {"inbox", "rejected"}


@pytest.mark.parametrize("settings", [{}, {"principal": "agent:x"}, {"default_role": "agent"}])
async def test_whoever_runs_it_is_not_asked_for(server: Any, settings: dict[str, Any]) -> None:
    async with opened(server, **settings) as house:
        await house.queue.set_role("agent:x", "agent")
        await send(house, {"type": "code"}, {"type": "code", "created_by": "agent:x"})
        await add(house, "dag", PLAN)

        done = await an_inbox(house).tick()

        assert (done.taken, done.rejected) == (3, 0)
        found = {task.spec.created_by async for task in house.queue.find()}
        assert found == {"service:inbox", "agent:x"}


async def test_a_role_that_is_kept_for_it_stands_above_the_setting(house: House) -> None:
    await house.queue.set_role("service:inbox", "agent")
    await send(house, {"type": "code"})

    done = await an_inbox(house).tick()

    assert (done.taken, done.rejected) == (0, 1)
