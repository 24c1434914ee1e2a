"""`rqueue workers`: who is there and what they offer, and how one is sent home."""

from __future__ import annotations

from pathlib import Path

from rqueue.core.workers import drain, leave
from tests.cli.conftest import Shell
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.worker.crew import enrol


async def test_a_registered_worker_is_shown_with_its_offer(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w1", "w1/a")
    await enrol(harness, "w2", "w2/a")
    await leave(harness.queue._internals.shard, "w2", "w2/a")

    _, first, second = await shell.lines("workers")

    assert first.split()[:3] == ["w1", "active", "0/4"]
    assert first.rstrip().endswith("code; can gpu; as ada")
    assert second.split()[:3] == ["w2", "offline", "0"]


async def test_the_page_names_every_field_of_the_json(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w1", "w1/a")
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    section = page.partition("### rqueue workers\n")[2].partition("\n###")[0]

    (found,) = await shell.json("workers")

    assert {name for name in found if f"`{name}`" not in section} == set()


async def test_as_json_it_has_every_field(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w1", "w1/a")
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


async def test_a_worker_is_sent_home(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w1", "w1/a")

    assert await shell.lines("workers", "drain", "w1") == ["w1 is draining"]
    assert await shell.json("workers", "drain", "w*") == [{"worker": "w1", "status": "draining"}]

    (_, line) = await shell.lines("workers")
    assert line.split()[:2] == ["w1", "draining"]


async def test_one_that_was_blamed_is_shown_so(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w1", "w1/a")
    await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks")

    (_, line) = await shell.lines("workers")
    assert line.split()[:3] == ["w1", "draining,", "blamed"]
    (found,) = await shell.json("workers")
    assert found["blamed_at"].endswith("+00:00")

    # One that takes its name and its place is another.
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    await enrol(harness, "w1", "w1/b")
    (_, line) = await shell.lines("workers")
    assert line.split()[:3] == ["w1", "active", "0/4"]


async def test_who_is_not_there_is_exit_1_and_what_is_no_name_exit_2(
    harness: Harness, shell: Shell
) -> None:
    await enrol(harness, "w1", "w1/a")
    before = await everything(harness)

    nobody = await shell.run("workers", "drain", "w2")
    nameless = await shell.run("workers", "drain", "w 2")
    early = await shell.run("workers", "--json", "drain", "w1")

    assert (nobody.exit_code, nameless.exit_code, early.exit_code) == (1, 2, 2)
    assert "rqueue workers" in nobody.stderr
    assert "put the options after drain" in early.stderr
    assert await everything(harness) == before
