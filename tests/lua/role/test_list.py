"""list: who was given a role."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.task.keys_after import ask


async def test_nobody_was_given_one_at_first(harness: Harness) -> None:
    assert await ask(harness, "role/list") == ["OK", []]
    assert await harness.queue.roles.list() == {}


async def test_they_come_by_name(harness: Harness) -> None:
    for name in ("human:b", "agent:c", "human:a"):
        await harness.queue.roles.set(name, "agent")

    assert list(await harness.queue.roles.list()) == ["agent:c", "human:a", "human:b"]
    assert (await ask(harness, "role/list"))[1][1::2] == ["agent"] * 3
