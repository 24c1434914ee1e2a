"""`rqueue cancel, purge, priority, reschedule, run-now, pause, resume`."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import State
from rqueue.cli.tasks import change
from tests.cli.conftest import Shell
from tests.harness import Harness


@pytest.mark.parametrize(
    "words",
    [
        ("cancel",),
        ("cancel", "some-id", "--all"),
        ("cancel", "--type", "a", "--all"),
        ("cancel", "some-id", "--dry-run"),
        ("cancel", "some-id", "--dependents", "free"),
        ("cancel", "--dry-run"),
        ("cancel", "--before", "yesterday"),
        ("reschedule", "some-id"),
        ("reschedule", "some-id", "--delay", "1", "--at", "2030-01-01T00:00:00Z"),
        ("reschedule", "some-id", "--at", "tomorrow"),
        ("reschedule", "some-id", "--at", "2030-01-01T00:00:00"),
        ("priority", "some-id", "high"),
        ("pause", "--type", "a", "--lane", "1"),
        ("resume", "--type", "a", "--lane", "1"),
        ("purge",),
    ],
    ids=" ".join,
)
async def test_contradictory_options_are_exit_2_and_change_nothing(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    lease = await harness.running(external_id="some-id")
    await lease.fail("error", "no", permanent=True)
    before = await harness.dump()

    result = await shell.run(*words)

    assert result.exit_code == 2, result.output
    assert await harness.dump() == before


@pytest.mark.parametrize("word", ["priority", "reschedule", "run-now", "task"])
async def test_an_unknown_task_is_exit_1(harness: Harness, shell: Shell, word: str) -> None:
    more = {"priority": ("1",), "reschedule": ("--delay", "1")}.get(word, ())

    result = await shell.run(word, "no-such-task", *more)

    assert result.exit_code == 1
    assert result.stderr == (
        "rqueue: no-such-task was not found: never submitted, or ended and expired\n"
    )


async def test_a_move_that_the_state_forbids_is_exit_3(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()

    result = await shell.run("reschedule", lease.id, "--delay", "5")

    assert result.exit_code == 3
    assert result.stderr.startswith(f"rqueue: {lease.id} is RUNNING; this operation needs ")


async def test_named_tasks_are_cancelled_one_by_one(harness: Harness, shell: Shell) -> None:
    first, second = await harness.queue.enqueue_many([{"type": "code"}] * 2)

    result = await shell.run("cancel", first.id, "no-such-task", second.id, "--reason", "enough")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{first.id} cancelled",
        "no-such-task not cancelled: not found, or it has ended",
        f"{second.id} cancelled",
    ]
    task = await second.task()
    assert (task.state, task.cancel_reason) == (State.CANCELLED, "enough")


@pytest.mark.parametrize("by", ["id", "filter"])
@pytest.mark.parametrize(
    ("words", "state"),
    [
        ([], State.CANCELLED),
        (["--dependents", "cascade"], State.CANCELLED),
        (["--dependents", "unblock"], State.READY),
    ],
)
async def test_dependents_of_a_cancelled_task_are_cancelled_or_unblocked(
    harness: Harness, shell: Shell, *, by: str, words: list[str], state: State
) -> None:
    parent = await harness.queue.enqueue("code", tags=["first"])
    child = await harness.queue.enqueue("code", depends_on=[parent.id])

    result = await shell.run("cancel", *([parent.id] if by == "id" else ["--tag", "first"]), *words)

    assert (result.exit_code, await parent.status()) == (0, State.CANCELLED)
    assert await child.status() is state


async def test_a_filter_lists_in_a_dry_run_and_then_cancels(harness: Harness, shell: Shell) -> None:
    wanted = await harness.queue.enqueue("code", tags=["old"])
    await harness.queue.enqueue("code")
    words = ("cancel", "--type", "code", "--tag", "old", "--status", "READY")

    dry = await shell.run(*words, "--dry-run")
    assert (dry.stdout, dry.stderr) == (f"{wanted.id}\n", "rqueue: 1 task would be cancelled\n")
    assert await wanted.status() is State.READY

    (answer,) = await shell.json(*words)
    assert answer == {"found": 1, "done": 1, "dry_run": False, "tasks": [wanted.id]}
    assert (await shell.run(*words)).exit_code == 1
    assert await shell.lines("cancel", "--all") == ["1 of 1 task cancelled"]


async def test_purge_discards_only_dead_tasks_and_needs_confirmation(
    harness: Harness, shell: Shell
) -> None:
    lease = await harness.running()
    await lease.fail("error", "no", permanent=True)
    alive = await harness.queue.enqueue("code")

    refused = await shell.run("purge")
    assert refused.exit_code == 2
    assert "1 task would be purged: add --yes" in refused.stderr

    assert await shell.lines("purge", "--yes") == ["1 of 1 task purged"]
    assert (await harness.task(lease.id)).state is State.CANCELLED
    assert await alive.status() is State.READY
    assert (await shell.run("purge")).exit_code == 1


async def test_tasks_that_die_during_the_confirmation_are_not_purged(
    harness: Harness, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    seen = await harness.running()
    await seen.fail("error", "no", permanent=True)
    late = await harness.running()

    def confirm(what: str, *_: str) -> None:
        assert what == "1 task"
        dying = late.fail("error", "no", permanent=True)
        asyncio.run_coroutine_threadsafe(dying, loop).result()

    monkeypatch.setattr(change, "confirm", confirm)
    lines = await shell.lines("purge")

    assert lines == ["1 of 1 task purged"]
    assert (await harness.task(seen.id)).state is State.CANCELLED
    assert (await harness.task(late.id)).state is State.DEAD_LETTERED


async def test_a_priority_is_set_on_a_scale(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code")

    assert await shell.lines("priority", handle.id, "7.5") == [f"{handle.id} has priority 7.5"]
    assert await shell.json("priority", handle.id, "10", "--scale", "1-10") == [
        {"id": handle.id, "priority": 0.0}
    ]
    assert (await shell.run("priority", handle.id, "101")).exit_code == 2


async def test_a_rescheduled_task_waits_until_run_now(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code")

    (line,) = await shell.lines("reschedule", handle.id, "--delay", "600")

    assert line.startswith(f"{handle.id} waits until ")
    assert await handle.status() is State.PENDING
    assert await shell.lines("run-now", handle.id) == [f"{handle.id} READY"]
    again = await shell.run("run-now", handle.id)
    assert again.exit_code == 1
    assert again.stderr == f"rqueue: {handle.id} was not waiting for its time\n"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "the queue"),
        (("--type", "code"), "type code"),
        (("--lane", "1"), "lane 1"),
    ],
)
async def test_paused_tasks_are_not_claimed_until_they_are_resumed(
    harness: Harness, shell: Shell, words: tuple[str, ...], what: str
) -> None:
    await harness.queue.enqueue("code")

    assert await shell.lines("pause", *words) == [f"{what} is paused"]
    assert (await shell.run("claim", "--wait", "0")).exit_code == 1
    assert await shell.lines("resume", *words) == [f"{what} is resumed"]

    assert (await shell.run("claim", "--wait", "0")).exit_code == 0
