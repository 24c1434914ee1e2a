"""list: who was given a role."""

from __future__ import annotations

from tests.house import House
from tests.lua.task.afterwards import ask


async def test_nobody_was_given_one_at_first(house: House) -> None:
    assert await ask(house, "role/list") == ["OK", []]
    assert await house.queue.roles() == {}


async def test_they_come_by_name(house: House) -> None:
    for name in ("human:b", "agent:c", "human:a"):
        await house.queue.set_role(name, "agent")

    assert list(await house.queue.roles()) == ["agent:c", "human:a", "human:b"]
    assert (await ask(house, "role/list"))[1][1::2] == ["agent"] * 3
