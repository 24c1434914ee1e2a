"""submit: the role of the principal is checked; one that may not create tasks writes nothing."""

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
    "delayed": {"options": {"delay": 60_000}},
}


async def roles_of(harness: Harness, **roles: str) -> None:
    """Keeps these roles, by names without their kind."""
    for name, role in roles.items():
        await harness.client.hset(harness.keys.roles(), f"agent:{name}", role)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 3])
async def test_an_agent_may_not_submit_and_no_key_is_written(
    harness: Harness, kind: str, number: int
) -> None:
    await roles_of(harness, coder="agent")
    before = await harness.dump()

    reply = await submit(harness, [a_row(**KINDS[kind]) for _ in range(number)], who=WHO)

    assert reply == ["OK", 0, *(word for at in range(number) for word in (at, *REFUSED))]
    assert await harness.dump() == before


async def test_an_agent_may_not_submit_to_an_existing_lane_either(harness: Harness) -> None:
    await submitted(harness)
    await roles_of(harness, coder="agent")
    before = await harness.dump()

    reply = await submit(harness, [a_row()], lanes=[PLAIN], who=WHO)
    new_lane = await submit(harness, [a_row()], lanes=[Lane("review", 0.0)], who=WHO)

    assert reply == new_lane == ["OK", 0, 0, *REFUSED]
    assert await harness.dump() == before


@pytest.mark.parametrize("role", ["orchestrator", "human"])
async def test_an_allowed_principal_submits_as_without_a_name(harness: Harness, role: str) -> None:
    await roles_of(harness, coder=role)

    assert await submit(harness, [a_row(task="a")], who=STRICT) == ["OK", 0]

    found = await everything(harness)
    assert found.pop("roles") == {"agent:coder": role}
    entries, pending = found.pop("ready")
    assert (list(entries.values()), pending) == ([{"task": "a"}], {})
    assert found.keys() == {"task:a", "lane:1", "lanes", "stats"}


async def test_a_principal_without_a_stored_role_has_the_one_of_the_call(harness: Harness) -> None:
    assert await submit(harness, [a_row()], who=WHO) == ["OK", 0]
    assert await submit(harness, [a_row()], who=STRICT) == ["OK", 0, 0, *REFUSED]


async def test_an_unknown_role_may_not_submit(harness: Harness) -> None:
    await roles_of(harness, coder="auditor")

    reply = await submit(harness, [a_row()], who=WHO)

    assert reply == ["OK", 0, 0, "FORBIDDEN", "agent:coder auditor"]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_repeated_submit_gets_the_same_reply_after_a_role_change(
    harness: Harness, number: int
) -> None:
    rows = [a_row() for _ in range(number)]
    assert await submit(harness, rows, who=WHO) == ["OK", 0]
    await roles_of(harness, coder="agent")
    before = await harness.dump()

    assert await submit(harness, rows, who=WHO) == ["OK", 0]
    assert await submit(harness, [*rows, a_row()], who=WHO) == ["OK", 0, number, *REFUSED]

    assert await harness.dump() == before


async def test_a_refusal_is_not_stored_and_the_current_role_decides(harness: Harness) -> None:
    rows = [a_row()]
    await roles_of(harness, coder="agent")
    assert await submit(harness, rows, who=WHO) == ["OK", 0, 0, *REFUSED]

    await roles_of(harness, coder="human")

    assert await submit(harness, rows, who=WHO) == ["OK", 0]


async def test_without_a_principal_no_role_is_checked(harness: Harness) -> None:
    # A key of another type would be an error.
    await harness.client.set(harness.keys.roles(), "not a hash")

    assert await submit(harness, [a_row()]) == ["OK", 0]
