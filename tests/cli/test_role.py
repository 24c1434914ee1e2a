"""`rqueue role set, list, drop`, and what a command is told that may not."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.harness import Harness


async def test_nobody_has_one_at_first(harness: Harness, shell: Shell) -> None:
    assert await shell.json("role", "list") == []
    found = await shell.run("role", "list")
    assert "no principal has a role of its own; all have the default, orchestrator" in found.stderr


async def test_one_is_set_and_dropped(harness: Harness, shell: Shell) -> None:
    (given,) = await shell.json("role", "set", "agent:coder", "agent")
    assert given == {"principal": "agent:coder", "role": "agent"}
    assert await shell.json("role", "list") == [given]
    assert "agent:coder" in (await shell.run("role", "list")).stdout
    assert await harness.queue.roles.list() == {"agent:coder": "agent"}

    (dropped,) = await shell.json("role", "drop", "agent:coder")
    assert dropped == {"principal": "agent:coder", "role": "orchestrator"}
    assert await harness.queue.roles.list() == {}


@pytest.mark.parametrize("words", [("set", "coder", "agent"), ("drop", "coder")])
async def test_who_is_no_principal_is_told_so(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    found = await shell.run("role", *words)

    assert found.exit_code == 2
    assert "kind:name" in found.stderr
    assert await harness.dump() == {}


async def test_a_role_that_is_none_is_a_mistake(harness: Harness, shell: Shell) -> None:
    found = await shell.run("role", "set", "agent:coder", "boss")

    assert found.exit_code == 2
    assert "orchestrator" in found.stderr


async def test_a_command_of_an_agent_creates_nothing(harness: Harness, shell: Shell) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()
    shell.env["RQUEUE_PRINCIPAL"] = "agent:coder"

    found = await shell.run("enqueue", "code")

    assert found.exit_code == 3
    assert "agent:coder has the role agent" in found.stderr
    assert "rqueue role set agent:coder orchestrator" in found.stderr
    assert await harness.dump() == before


@pytest.mark.parametrize("words", [("set", "agent:coder", "human"), ("drop", "agent:coder")])
async def test_a_command_of_an_agent_changes_no_role(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()
    shell.env["RQUEUE_PRINCIPAL"] = "agent:coder"

    found = await shell.run("role", *words)

    assert found.exit_code == 3
    assert "may not change roles" in found.stderr
    assert await harness.dump() == before
