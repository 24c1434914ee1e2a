"""set: a principal has a role from now on."""

from __future__ import annotations

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import afterwards, ask

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


async def test_a_role_is_written_down(harness: Harness) -> None:
    assert await ask(harness, "role/set", TERMS) == ["OK"]

    assert await afterwards(harness) == {"roles": {"agent:coder": "agent"}, "events": [GIVEN]}


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    await ask(harness, "role/set", TERMS)
    before = await everything(harness)

    assert await ask(harness, "role/set", TERMS) == ["OK"]

    assert await everything(harness) == before


async def test_one_whose_role_forbids_it_is_refused_and_writes_nothing(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    for given in ({}, {"principal": "human:ada"}, {"role": "orchestrator"}):
        said = await ask(harness, "role/set", TERMS | WHO | given)
        assert said == ["FORBIDDEN", "agent:coder agent"]

    assert await harness.dump() == before


async def test_one_that_gave_up_its_right_is_told_so_when_it_is_sent_again(
    harness: Harness,
) -> None:
    args = TERMS | WHO | {"request": "r1", "memo_ms": 60_000}
    assert await ask(harness, "role/set", args) == ["OK"]

    assert await ask(harness, "role/set", args) == ["OK"]
    assert (await ask(harness, "role/set", args | {"request": "r2"}))[0] == "FORBIDDEN"


async def test_another_role_takes_its_place(harness: Harness) -> None:
    await ask(harness, "role/set", TERMS)

    await ask(harness, "role/set", TERMS | {"role": "human"})

    assert await harness.queue.roles.list() == {"agent:coder": "human"}
