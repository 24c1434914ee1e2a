"""submit: who asks is looked up, and of one that may not create tasks nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.model.lane import Lane
from rqueue.store.roles import who_of
from rqueue.store.shard import Terms
from tests.house import House
from tests.lua.rows import PLAIN, a_row, everything, submit, submitted

WHO = who_of(Terms(), ("agent:coder",))
STRICT = who_of(Terms(default_role="agent"), ("agent:coder",))
REFUSED = ["FORBIDDEN", "agent:coder agent"]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "special": {"more": {"idem": "a" * 64, "window": 60_000, "unique": "until_done"}},
    "delayed": {"ask": {"delay": 60_000}},
}


async def roles_of(house: House, **roles: str) -> None:
    """Keeps these roles, by names without their kind."""
    for name, role in roles.items():
        await house.client.hset(house.keys.roles(), f"agent:{name}", role)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 3])
async def test_an_agent_creates_nothing_and_no_key_is_written(
    house: House, kind: str, number: int
) -> None:
    await roles_of(house, coder="agent")
    before = await house.dump()

    said = await submit(house, [a_row(**KINDS[kind]) for _ in range(number)], who=WHO)

    assert said == ["OK", 0, *(word for at in range(number) for word in (at, *REFUSED))]
    assert await house.dump() == before


async def test_it_creates_nothing_in_a_lane_that_is_there_either(house: House) -> None:
    await submitted(house)
    await roles_of(house, coder="agent")
    before = await house.dump()

    said = await submit(house, [a_row()], lanes=[PLAIN], who=WHO)
    new_lane = await submit(house, [a_row()], lanes=[Lane("review", 0.0)], who=WHO)

    assert said == new_lane == ["OK", 0, 0, *REFUSED]
    assert await house.dump() == before


@pytest.mark.parametrize("role", ["orchestrator", "human"])
async def test_others_create_what_they_would_without_a_name(house: House, role: str) -> None:
    await roles_of(house, coder=role)

    assert await submit(house, [a_row(task="a")], who=STRICT) == ["OK", 0]

    found = await everything(house)
    assert found.pop("roles") == {"agent:coder": role}
    entries, pending = found.pop("ready")
    assert (list(entries.values()), pending) == ([{"task": "a"}], {})
    assert found.keys() == {"task:a", "lane:1", "lanes", "stats"}


async def test_who_has_no_role_has_the_one_that_is_sent(house: House) -> None:
    assert await submit(house, [a_row()], who=WHO) == ["OK", 0]
    assert await submit(house, [a_row()], who=STRICT) == ["OK", 0, 0, *REFUSED]


async def test_a_role_that_nobody_knows_creates_nothing(house: House) -> None:
    await roles_of(house, coder="auditor")

    said = await submit(house, [a_row()], who=WHO)

    assert said == ["OK", 0, 0, "FORBIDDEN", "agent:coder auditor"]


@pytest.mark.parametrize("number", [1, 2])
async def test_sent_again_it_says_what_it_said_whatever_the_role_is_by_then(
    house: House, number: int
) -> None:
    rows = [a_row() for _ in range(number)]
    assert await submit(house, rows, who=WHO) == ["OK", 0]
    await roles_of(house, coder="agent")
    before = await house.dump()

    assert await submit(house, rows, who=WHO) == ["OK", 0]
    assert await submit(house, [*rows, a_row()], who=WHO) == ["OK", 0, number, *REFUSED]

    assert await house.dump() == before


async def test_a_refusal_is_not_kept_and_the_role_of_then_decides(house: House) -> None:
    rows = [a_row()]
    await roles_of(house, coder="agent")
    assert await submit(house, rows, who=WHO) == ["OK", 0, 0, *REFUSED]

    await roles_of(house, coder="human")

    assert await submit(house, rows, who=WHO) == ["OK", 0]


async def test_without_a_name_no_role_is_asked_for(house: House) -> None:
    # A key of another type would be an error.
    await house.client.set(house.keys.roles(), "not a hash")

    assert await submit(house, [a_row()]) == ["OK", 0]
