"""set: a principal has a role from now on."""

from __future__ import annotations

from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import afterwards, ask

TERMS: dict[str, Argument] = {
    "principal": "agent:coder",
    "role": "agent",
    "events": 1000,
    "who": "",
}
WHO: dict[str, Argument] = {
    "who": '{"by":[["agent:coder","orchestrator"]],"may":["orchestrator","human"]}',
}
GIVEN = {"event": "role.set", "role": "agent:coder", "detail": "agent"}


async def test_a_role_is_written_down(house: House) -> None:
    assert await ask(house, "role/set", TERMS) == ["OK"]

    assert await afterwards(house) == {"roles": {"agent:coder": "agent"}, "events": [GIVEN]}


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    await ask(house, "role/set", TERMS)
    before = await everything(house)

    assert await ask(house, "role/set", TERMS) == ["OK"]

    assert await everything(house) == before


async def test_one_whose_role_forbids_it_is_refused_and_writes_nothing(house: House) -> None:
    await house.queue.set_role("agent:coder", "agent")
    before = await house.dump()

    for given in ({}, {"principal": "human:ada"}, {"role": "orchestrator"}):
        said = await ask(house, "role/set", TERMS | WHO | given)
        assert said == ["FORBIDDEN", "agent:coder agent"]

    assert await house.dump() == before


async def test_one_that_gave_up_its_right_is_told_so_when_it_is_sent_again(house: House) -> None:
    args = TERMS | WHO | {"request": "r1", "memo_ms": 60_000}
    assert await ask(house, "role/set", args) == ["OK"]

    assert await ask(house, "role/set", args) == ["OK"]
    assert (await ask(house, "role/set", args | {"request": "r2"}))[0] == "FORBIDDEN"


async def test_another_role_takes_its_place(house: House) -> None:
    await ask(house, "role/set", TERMS)

    await ask(house, "role/set", TERMS | {"role": "human"})

    assert await house.queue.roles() == {"agent:coder": "human"}
