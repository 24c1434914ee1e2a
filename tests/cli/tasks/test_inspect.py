"""`rqueue tasks` and `rqueue task`."""

from __future__ import annotations

import json

import pytest

from rqueue.core.leases import HeldLease
from rqueue.core.notes import step
from tests.cli.conftest import Shell, columns
from tests.harness import Harness


@pytest.mark.parametrize("word", ["tasks", "workers", "queues", "counts"])
async def test_an_empty_server_is_no_error(harness: Harness, shell: Shell, word: str) -> None:
    lines = await shell.lines(word)

    assert lines[0] == lines[0].upper()
    assert len(lines) == (2 if word == "counts" else 1)


async def test_matching_tasks_are_listed_by_state_and_urgency(
    harness: Harness, shell: Shell
) -> None:
    late = await harness.queue.enqueue("code", priority=80, tags=["a"])
    soon = await harness.queue.enqueue("code", priority=5, tags=["a"])
    await harness.queue.enqueue("other", tags=["a"])
    await harness.queue.enqueue("code", delay=60)

    lines = await shell.lines("tasks", "--type", "code", "--tag", "a", "--status", "ready")

    assert [columns(line)[:3] for line in lines] == [
        ["ID", "TYPE", "STATE"],
        [soon.id, "code", "READY"],
        [late.id, "code", "READY"],
    ]


async def test_dead_tasks_are_listed_with_their_error(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    await lease.fail("error", "it broke\nand more", permanent=True)

    assert len(await shell.lines("tasks")) == 1
    (_, line) = await shell.lines("tasks", "--status", "DEAD_LETTERED")

    assert columns(line)[0] == lease.id
    assert line.endswith("it broke")


async def test_a_state_that_is_not_listed_is_wrong_usage(shell: Shell) -> None:
    result = await shell.run("tasks", "--status", "COMPLETED")

    assert result.exit_code == 2
    assert "dead_lettered" in result.stderr


async def test_tasks_as_json_are_whole_and_limited(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue_many([{"type": "code", "payload": n} for n in range(3)])

    result = await shell.run("tasks", "--json", "--limit", "2")

    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "rqueue: there are more than 2: narrow the filter or raise --limit\n"
    found = await shell.json("tasks", "--limit", "3")
    assert sorted(task["payload"] for task in found) == [0, 1, 2]


async def test_the_timeline_of_a_task_is_in_order(harness: Harness, shell: Shell) -> None:
    lease = await harness.running(title="the title", created_by="human:me", external_id="mine")
    await lease.fail("timeout", "too slow\nby far")
    await harness.make_due(lease.id)
    await harness.promoter.tick()
    (lease,) = await harness.queue.claim(worker="w2")
    await lease.start()

    lines = await shell.lines("task", "mine")

    head, life = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert [line.split()[0] for line in head] == [
        "task", "title", "type", "state", "failed", "payload",
    ]  # fmt: skip
    assert [line[21:] for line in life] == [
        "submitted          by human:me, priority 50",
        "attempt 1 failed   timeout on w1: too slow",
        "claimed            by w2",
        "started            attempt 2",
        life[4][21:],
        "RUNNING            leased by a worker that executes it",
    ]
    assert life[4][21:].startswith("last heartbeat     lease until ")
    assert life[-1].startswith("now")


@pytest.mark.parametrize("end", ["COMPLETED", "CANCELLED", "DEAD_LETTERED", "PENDING", "READY"])
async def test_the_timeline_ends_with_the_current_state(
    harness: Harness, shell: Shell, end: str
) -> None:
    id: str
    if end == "PENDING":
        parent = await harness.queue.enqueue("code")
        id = (await harness.queue.enqueue("code", depends_on=[parent.id], delay=60)).id
    elif end == "READY":
        id = (await harness.queue.enqueue("code")).id
    else:
        lease = await harness.running()
        id = lease.id
        if end == "COMPLETED":
            await lease.complete({"n": 1})
        elif end == "CANCELLED":
            await harness.queue.cancel(id, "no more")
        else:
            await lease.fail("error", "no", permanent=True)

    (task,) = await shell.json("task", id)

    assert task["state"] == end
    last = task["timeline"][-1]
    assert last["what"] == end
    assert (last["at"] is None) == (end in ("PENDING", "READY"))
    assert (await shell.lines("task", id))[-1].split()[-1]


async def test_a_poison_pill_is_marked(harness: Harness, shell: Shell) -> None:
    lease = await harness.running(max_attempts=9)
    await lease.fail("error", "no")
    await harness.make_due(lease.id)
    await harness.promoter.tick()
    (lease,) = await harness.queue.claim(worker="w2")
    await lease.fail("error", "no")

    lines = await shell.lines("task", lease.id)
    (found,) = await shell.json("task", lease.id)
    as_b = json.loads("".join(await shell.lines("task", lease.id, "--form", "b")))

    assert "poison   failed on several workers: w1, w2" in lines
    assert lines[-1].endswith("DEAD_LETTERED      error, poison pill")
    assert (found["poison_pill"], as_b["task"]["poison_pill"]) == (True, True)
    assert await shell.lines("task", lease.id, "--field", "poison_pill") == ["true"]


async def test_the_steps_of_a_task_are_shown(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    for name in ("fetch", "a\x1b[2Jb"):
        await step(
            harness.queue._internals.shard, HeldLease(lease.id.ulid, lease.token), name, b"1"
        )

    assert "steps    a\\x1b[2Jb, fetch" in await shell.lines("task", lease.id)


async def test_one_field_is_printed_for_shells(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", {"a": [1]}, title="ä text")

    assert await shell.lines("task", handle.id, "--field", "payload") == ['{"a": [1]}']
    assert await shell.lines("task", handle.id, "--field", "title") == ["ä text"]
    wrong = await shell.run("task", handle.id, "--field", "colour")
    assert wrong.exit_code == 2
    assert "payload" in wrong.stderr


async def test_a_task_is_shown_as_a_document(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code")

    (task,) = await shell.json("task", handle.id, "--form", "b")

    assert (task["task"]["id"], task["task"]["type"]) == (handle.id, "code")


async def test_control_characters_of_an_error_are_escaped(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    await lease.fail("error", "\x1b[2J\x9b31m gone", permanent=True)

    for words in (("task", lease.id), ("tasks", "--status", "DEAD_LETTERED")):
        text = "".join(await shell.lines(*words))
        assert r"\x1b[2J\x9b31m gone" in text
        assert text.isprintable()
