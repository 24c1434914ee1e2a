"""drop: a principal has no role of its own any more."""

from __future__ import annotations

from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import all_keys, run_move

TERMS: dict[str, Argument] = {"principal": "agent:coder", "events": 1000, "who": ""}
WHO: dict[str, Argument] = {
    "who": '{"by":[["agent:coder","orchestrator"]],"may":["orchestrator","human"]}',
}


async def test_a_role_is_removed_and_those_of_others_stay(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    await harness.queue.roles.set("human:ada", "human")

    assert await run_move(harness, "role/drop", TERMS) == ["OK"]

    found = await all_keys(harness)
    assert found.pop("events")[-1] == {
        "event": "role.dropped", "role": "agent:coder", "detail": "agent",
    }  # fmt: skip
    assert found == {"roles": {"human:ada": "human"}}


async def test_a_caller_whose_role_forbids_it_is_refused_and_writes_nothing(
    harness: Harness,
) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    assert await run_move(harness, "role/drop", TERMS | WHO) == ["FORBIDDEN", "agent:coder agent"]
    assert await harness.dump() == before


async def test_a_principal_without_a_role_is_not_changed(harness: Harness) -> None:
    assert await run_move(harness, "role/drop", TERMS) == ["OK"]
    assert await everything(harness) == {}
