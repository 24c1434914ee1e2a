"""set: a principal has a role from now on."""

from __future__ import annotations

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import all_keys, run_move

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


async def test_a_role_is_stored(harness: Harness) -> None:
    assert await run_move(harness, "role/set", TERMS) == ["OK"]

    assert await all_keys(harness) == {"roles": {"agent:coder": "agent"}, "events": [GIVEN]}


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    await run_move(harness, "role/set", TERMS)
    before = await everything(harness)

    assert await run_move(harness, "role/set", TERMS) == ["OK"]

    assert await everything(harness) == before


async def test_a_caller_whose_role_forbids_it_is_refused_and_writes_nothing(
    harness: Harness,
) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    for given in ({}, {"principal": "human:ada"}, {"role": "orchestrator"}):
        reply = await run_move(harness, "role/set", TERMS | WHO | given)
        assert reply == ["FORBIDDEN", "agent:coder agent"]

    assert await harness.dump() == before


async def test_a_repeated_call_that_removed_its_own_right_gets_the_first_reply(
    harness: Harness,
) -> None:
    args = TERMS | WHO | {"request": "r1", "memo_ms": 60_000}
    assert await run_move(harness, "role/set", args) == ["OK"]

    assert await run_move(harness, "role/set", args) == ["OK"]
    assert (await run_move(harness, "role/set", args | {"request": "r2"}))[0] == "FORBIDDEN"


async def test_another_role_replaces_it(harness: Harness) -> None:
    await run_move(harness, "role/set", TERMS)

    await run_move(harness, "role/set", TERMS | {"role": "human"})

    assert await harness.queue.roles.list() == {"agent:coder": "human"}
