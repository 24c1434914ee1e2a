"""The inbox submits as service:inbox, with the role of that principal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness import Harness, opened
from tests.inbox_entries import add, an_inbox, left, refused, send

PLAN = json.dumps({"tasks": [{"type": "code", "name": "a"}]})


async def test_with_the_role_of_an_agent_everything_is_rejected(server: Any) -> None:
    async with opened(server, inbox_role="agent") as harness:
        await send(harness, {"type": "code"}, {"type": "code", "created_by": "human:ada"})
        await add(harness, "dag", PLAN)

        done = await an_inbox(harness).tick()

        assert (done.taken, done.rejected, await left(harness)) == (0, 3, 0)
        assert [at for at, _ in await refused(harness)] == ["0", "1", ""]
        assert all("service:inbox has the role agent" in why for _, why in await refused(harness))
        keys = {key.removeprefix(harness.keys.root) for key in await harness.dump()}
        assert keys == {"inbox", "rejected"}


@pytest.mark.parametrize("settings", [{}, {"principal": "agent:x"}, {"default_role": "agent"}])
async def test_the_principal_of_the_process_does_not_matter(
    server: Any, settings: dict[str, Any]
) -> None:
    async with opened(server, **settings) as harness:
        await harness.queue.roles.set("agent:x", "agent")
        await send(harness, {"type": "code"}, {"type": "code", "created_by": "agent:x"})
        await add(harness, "dag", PLAN)

        done = await an_inbox(harness).tick()

        assert (done.taken, done.rejected) == (3, 0)
        found = {task.spec.created_by async for task in harness.queue.find()}
        assert found == {"service:inbox", "agent:x"}


async def test_a_stored_role_overrides_the_setting(harness: Harness) -> None:
    await harness.queue.roles.set("service:inbox", "agent")
    await send(harness, {"type": "code"})

    done = await an_inbox(harness).tick()

    assert (done.taken, done.rejected) == (0, 1)
