"""`rqueue workers` and `rqueue role`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rqueue import State
from rqueue.core.workers import drain, leave
from tests.cli.conftest import Shell, columns
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.worker.registered import register_worker


async def test_a_registered_worker_is_shown_with_its_offer(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w1", "w1/a")
    await register_worker(harness, "w2", "w2/a")
    await leave(harness.queue._internals.shard, "w2", "w2/a")

    _, first, second = await shell.lines("workers")

    assert first.split()[:3] == ["w1", "active", "0/4"]
    assert first.rstrip().endswith("code; can gpu; as ada")
    assert second.split()[:3] == ["w2", "offline", "0"]


async def test_the_page_names_every_field_of_the_json(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w1", "w1/a")
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    section = page.partition("### rqueue workers\n")[2].partition("\n###")[0]

    (found,) = await shell.json("workers")

    assert {name for name in found if f"`{name}`" not in section} == set()


async def test_a_worker_as_json_has_every_field(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w1", "w1/a")
    await harness.queue.enqueue("code")
    (lease,) = await harness.queue.claim(worker="w1")

    (found,) = await shell.json("workers")

    assert found["tasks"][0].pop("idle_ms") >= 0
    assert found.pop("idle_ms") >= 0
    assert found.pop("last_heartbeat").endswith("+00:00")
    assert found == {
        "worker": "w1",
        "id": "w1",
        "type": "ada",
        "types": ["code"],
        "capabilities": ["gpu"],
        "agents": ["ada"],
        "models_available": [],
        "max_concurrent_tasks": 4,
        "poll_interval_sec": 0.0,
        "claim_ttl_sec": 0.0,
        "worked": {},
        "blames": {},
        "budget_remaining_usd": None,
        "current_tasks": 1,
        "status": "active",
        "blamed_at": None,
        "runs": 1,
        "tasks": [{"id": lease.id, "state": "CLAIMED"}],
    }


async def test_a_worker_is_drained(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w1", "w1/a")

    assert await shell.lines("workers", "drain", "w1") == ["w1 is draining"]
    assert await shell.json("workers", "drain", "w*") == [{"worker": "w1", "status": "draining"}]

    (_, line) = await shell.lines("workers")
    assert line.split()[:2] == ["w1", "draining"]


async def test_a_blamed_worker_is_marked(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks")

    (_, line) = await shell.lines("workers")
    assert line.split()[:3] == ["w1", "draining,", "blamed"]
    (found,) = await shell.json("workers")
    assert found["blamed_at"].endswith("+00:00")

    # A new worker with the same name is not blamed.
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    await register_worker(harness, "w1", "w1/b")
    (_, line) = await shell.lines("workers")
    assert line.split()[:3] == ["w1", "active", "0/4"]


async def test_draining_an_unknown_worker_is_exit_1_and_an_invalid_name_exit_2(
    harness: Harness, shell: Shell
) -> None:
    await register_worker(harness, "w1", "w1/a")
    before = await everything(harness)

    unknown = await shell.run("workers", "drain", "w2")
    invalid = await shell.run("workers", "drain", "w 2")
    early = await shell.run("workers", "--json", "drain", "w1")

    assert (unknown.exit_code, invalid.exit_code, early.exit_code) == (1, 2, 2)
    assert "rqueue workers" in unknown.stderr
    assert "put the options after drain" in early.stderr
    assert await everything(harness) == before


async def test_no_principal_has_a_role_of_its_own_at_first(harness: Harness, shell: Shell) -> None:
    assert await shell.json("role", "list") == []
    found = await shell.run("role", "list")
    assert "no principal has a role of its own; all have the default, orchestrator" in found.stderr


async def test_a_role_is_set_and_dropped(harness: Harness, shell: Shell) -> None:
    (given,) = await shell.json("role", "set", "agent:coder", "agent")
    assert given == {"principal": "agent:coder", "role": "agent"}
    assert await shell.json("role", "list") == [given]
    assert "agent:coder" in (await shell.run("role", "list")).stdout
    assert await harness.queue.roles.list() == {"agent:coder": "agent"}

    (dropped,) = await shell.json("role", "drop", "agent:coder")
    assert dropped == {"principal": "agent:coder", "role": "orchestrator"}
    assert await harness.queue.roles.list() == {}


@pytest.mark.parametrize("words", [("set", "coder", "agent"), ("drop", "coder")])
async def test_an_invalid_principal_is_wrong_usage(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    found = await shell.run("role", *words)

    assert found.exit_code == 2
    assert "kind:name" in found.stderr
    assert await harness.dump() == {}


async def test_an_unknown_role_is_wrong_usage(harness: Harness, shell: Shell) -> None:
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


async def test_workers_are_shown_with_what_they_hold(harness: Harness, shell: Shell) -> None:
    leases = [await harness.running() for _ in range(4)]
    await harness.queue.enqueue("other")
    (done,) = await harness.queue.claim(worker="w2", types=["other"])
    await done.release()

    (_, first, second) = await shell.lines("workers")

    assert columns(first)[:3] == ["w1", "active", "4"]
    assert first.endswith("and 1 more")
    assert columns(second)[:3] == ["w2", "active", "0"]
    one, two = await shell.json("workers")
    assert [task["id"] for task in one["tasks"]] == [lease.id for lease in leases]
    assert one["tasks"][0]["state"] == State.RUNNING
    assert two["tasks"] == []


async def test_a_worker_without_a_task_is_shown(harness: Harness, shell: Shell) -> None:
    await harness.running()
    assert await harness.queue.claim(worker="w2", types=["other"]) == []

    (_, first, second) = await shell.lines("workers")

    assert columns(first)[:3] == ["w1", "active", "1"]
    assert columns(second)[:3] == ["w2", "active", "0"]
