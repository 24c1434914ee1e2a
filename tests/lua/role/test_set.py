"""set: a principal has a role from now on."""

from __future__ import annotations

from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask

TERMS: dict[str, Argument] = {"principal": "agent:coder", "role": "agent", "events": 1000}
GIVEN = {"event": "role.set", "task": "agent:coder", "detail": "agent"}


async def test_a_role_is_written_down(house: House) -> None:
    assert await ask(house, "role/set", TERMS) == ["OK"]

    assert await afterwards(house) == {"roles": {"agent:coder": "agent"}, "events": [GIVEN]}


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    await ask(house, "role/set", TERMS)
    before = await house.dump()

    assert await ask(house, "role/set", TERMS) == ["OK"]

    assert await house.dump() == before


async def test_another_role_takes_its_place(house: House) -> None:
    await ask(house, "role/set", TERMS)

    await ask(house, "role/set", TERMS | {"role": "human"})

    assert await house.queue.roles() == {"agent:coder": "human"}
