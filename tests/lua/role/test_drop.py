"""drop: a principal has no role of its own any more."""

from __future__ import annotations

from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import afterwards, ask

TERMS: dict[str, Argument] = {"principal": "agent:coder", "events": 1000, "who": ""}
WHO: dict[str, Argument] = {
    "who": '{"by":[["agent:coder","orchestrator"]],"may":["orchestrator","human"]}',
}


async def test_a_role_is_gone_and_those_of_others_stay(house: House) -> None:
    await house.queue.set_role("agent:coder", "agent")
    await house.queue.set_role("human:ada", "human")

    assert await ask(house, "role/drop", TERMS) == ["OK"]

    found = await afterwards(house)
    assert found.pop("events")[-1] == {
        "event": "role.dropped", "role": "agent:coder", "detail": "agent",
    }  # fmt: skip
    assert found == {"roles": {"human:ada": "human"}}


async def test_one_whose_role_forbids_it_is_refused_and_writes_nothing(house: House) -> None:
    await house.queue.set_role("agent:coder", "agent")
    before = await house.dump()

    assert await ask(house, "role/drop", TERMS | WHO) == ["FORBIDDEN", "agent:coder agent"]
    assert await house.dump() == before


async def test_who_has_none_is_left_as_it_is(house: House) -> None:
    assert await ask(house, "role/drop", TERMS) == ["OK"]
    assert await everything(house) == {}
