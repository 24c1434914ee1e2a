"""submit: who asks is looked up, and of one that may not create tasks nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.submit import who_of
from rqueue.store.shard import Terms
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import PLAIN, a_row, everything, submit, submitted

WHO = who_of(Terms(), ("agent:coder",))
STRICT = who_of(Terms(default_role="agent"), ("agent:coder",))
REFUSED = ["FORBIDDEN", "agent:coder agent"]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "special": {"more": {"idem": "a" * 64, "window": 60_000, "unique": "until_done"}},
    "delayed": {"ask": {"delay": 60_000}},
}


async def roles_of(harness: Harness, **roles: str) -> None:
    """Keeps these roles, by names without their kind."""
    for name, role in roles.items():
        await harness.client.hset(harness.keys.roles(), f"agent:{name}", role)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 3])
async def test_an_agent_creates_nothing_and_no_key_is_written(
    harness: Harness, kind: str, number: int
) -> None:
    await roles_of(harness, coder="agent")
    before = await harness.dump()

    said = await submit(harness, [a_row(**KINDS[kind]) for _ in range(number)], who=WHO)

    assert said == ["OK", 0, *(word for at in range(number) for word in (at, *REFUSED))]
    assert await harness.dump() == before


async def test_it_creates_nothing_in_a_lane_that_is_there_either(harness: Harness) -> None:
    await submitted(harness)
    await roles_of(harness, coder="agent")
    before = await harness.dump()

    said = await submit(harness, [a_row()], lanes=[PLAIN], who=WHO)
    new_lane = await submit(harness, [a_row()], lanes=[Lane("review", 0.0)], who=WHO)

    assert said == new_lane == ["OK", 0, 0, *REFUSED]
    assert await harness.dump() == before


@pytest.mark.parametrize("role", ["orchestrator", "human"])
async def test_others_create_what_they_would_without_a_name(harness: Harness, role: str) -> None:
    await roles_of(harness, coder=role)

    assert await submit(harness, [a_row(task="a")], who=STRICT) == ["OK", 0]

    found = await everything(harness)
    assert found.pop("roles") == {"agent:coder": role}
    entries, pending = found.pop("ready")
    assert (list(entries.values()), pending) == ([{"task": "a"}], {})
    assert found.keys() == {"task:a", "lane:1", "lanes", "stats"}


async def test_who_has_no_role_has_the_one_that_is_sent(harness: Harness) -> None:
    assert await submit(harness, [a_row()], who=WHO) == ["OK", 0]
    assert await submit(harness, [a_row()], who=STRICT) == ["OK", 0, 0, *REFUSED]


async def test_a_role_that_nobody_knows_creates_nothing(harness: Harness) -> None:
    await roles_of(harness, coder="auditor")

    said = await submit(harness, [a_row()], who=WHO)

    assert said == ["OK", 0, 0, "FORBIDDEN", "agent:coder auditor"]


@pytest.mark.parametrize("number", [1, 2])
async def test_sent_again_it_says_what_it_said_whatever_the_role_is_by_then(
    harness: Harness, number: int
) -> None:
    rows = [a_row() for _ in range(number)]
    assert await submit(harness, rows, who=WHO) == ["OK", 0]
    await roles_of(harness, coder="agent")
    before = await harness.dump()

    assert await submit(harness, rows, who=WHO) == ["OK", 0]
    assert await submit(harness, [*rows, a_row()], who=WHO) == ["OK", 0, number, *REFUSED]

    assert await harness.dump() == before


async def test_a_refusal_is_not_kept_and_the_role_of_then_decides(harness: Harness) -> None:
    rows = [a_row()]
    await roles_of(harness, coder="agent")
    assert await submit(harness, rows, who=WHO) == ["OK", 0, 0, *REFUSED]

    await roles_of(harness, coder="human")

    assert await submit(harness, rows, who=WHO) == ["OK", 0]


async def test_without_a_name_no_role_is_asked_for(harness: Harness) -> None:
    # A key of another type would be an error.
    await harness.client.set(harness.keys.roles(), "not a hash")

    assert await submit(harness, [a_row()]) == ["OK", 0]
