"""list: the principals that have a role."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.task.keyspace import run_move


async def test_a_new_queue_has_no_roles(harness: Harness) -> None:
    assert await run_move(harness, "role/list") == ["OK", []]
    assert await harness.queue.roles.list() == {}


async def test_roles_are_listed_by_principal(harness: Harness) -> None:
    for name in ("human:b", "agent:c", "human:a"):
        await harness.queue.roles.set(name, "agent")

    assert list(await harness.queue.roles.list()) == ["agent:c", "human:a", "human:b"]
    assert (await run_move(harness, "role/list"))[1][1::2] == ["agent"] * 3
