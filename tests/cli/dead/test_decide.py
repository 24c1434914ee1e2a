"""`rqueue dead retry, edit, wait, escalate, cancel, delete`: decisions by id and by filter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rqueue import State
from rqueue.dead.decide import fingerprint_of
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died, reviews
from tests.harness import Harness


async def test_a_retry_starts_a_new_life_and_records_the_decision(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness)
    options = ("--cause", "agent_bug", "--note", "fixed in 1.2", "--by", "human:ada")

    (row,) = await shell.json("dead", "retry", task, *options)

    assert row == {"id": task, "resolution": "retry", "state": "READY", "dry_run": False}
    (review,) = await reviews(harness)
    assert (review.task, review.resolution, review.cause) == (task, "retry", "agent_bug")
    assert (review.note, review.by, review.type) == ("fixed in 1.2", "human:ada", "code")


@pytest.mark.parametrize(
    ("word", "state"),
    [("retry", "READY"), ("escalate", "DEAD_LETTERED"), ("cancel", "CANCELLED"),
     ("delete", "CANCELLED")],
)  # fmt: skip
async def test_a_dry_run_prints_the_decision_and_changes_nothing(
    harness: Harness, shell: Shell, word: str, state: str
) -> None:
    task, other = await died(harness), await died(harness, "else")
    cluster = fingerprint_of(await harness.task(task)).id
    before = await harness.dump()

    (named,) = await shell.lines("dead", word, task, "--dry-run")
    (listed,) = await shell.lines("dead", word, "--cluster", cluster, "--dry-run")

    assert named.startswith(f"{task} would be ")
    assert listed == task
    assert await harness.dump() == before
    await shell.lines("dead", word, "--cluster", cluster, "--yes")
    assert [(await harness.task(one)).state for one in (task, other)] == [state, "DEAD_LETTERED"]
    assert [review.resolution for review in await reviews(harness)] == [word]


@pytest.mark.parametrize(
    "words",
    [("retry", "--cause", "bad cause"), ("retry", "--note", "a\udc80b"), ("cancel", "--by", "ada"),
     ("wait", "--until", "2000-01-01T00:00:00Z"), ("wait", "--for", "99999999"),
     ("edit", "--payload", "null"), ("edit", "--payload", '{"n": 2}', "--cause", "bad cause"),
     ("edit", "--payload", '"' + "x" * 300_000 + '"')],
)  # fmt: skip
async def test_a_dry_run_refuses_an_impossible_decision(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    word, *options = words
    task = await died(harness)

    dry = await shell.run("dead", word, task, *options, "--dry-run")
    real = await shell.run("dead", word, task, *options)

    assert (dry.exit_code, dry.stdout) == (2, "")
    assert (real.exit_code, real.stderr) == (2, dry.stderr)


async def test_a_dry_run_refuses_an_unreadable_definition(harness: Harness, shell: Shell) -> None:
    task = await died(harness)
    await harness.client.hset(harness.keys.task(task.ulid), "def0", '{"t":')
    words = ("dead", "edit", task, "--payload", '{"n": 2}')

    dry, real = await shell.run(*words, "--dry-run"), await shell.run(*words)

    assert (dry.exit_code, dry.stderr) == (real.exit_code, real.stderr)
    assert (dry.exit_code, dry.stdout) == (2, "")


async def test_many_tasks_are_not_changed_without_confirmation(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness)

    refused = await shell.run("dead", "retry", "--all")

    assert (refused.exit_code, "add --yes" in refused.stderr) == (2, True)
    assert (await harness.task(task)).state is State.DEAD_LETTERED
    assert (await shell.run("dead", "retry", "--all", "--yes")).exit_code == 0
    assert (await shell.run("dead", "retry", "--all", "--yes")).exit_code == 1


async def test_a_task_that_cannot_be_retried_does_not_stop_the_others(
    harness: Harness, shell: Shell
) -> None:
    stuck = await died(harness, idempotency_key="k")
    await harness.queue.enqueue("code", {}, idempotency_key="k", delay=3600)
    free = await died(harness)

    result = await shell.run("dead", "retry", "--all", "--yes", "--json")

    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert (found["found"], found["done"], list(found["refused"])) == (2, 1, [stuck])
    assert "idempotency key" in result.stderr
    assert (await harness.task(free)).state is State.READY
    named = await shell.run("dead", "retry", stuck, "never-seen", free)
    assert named.exit_code == 3
    assert (await shell.run("dead", "retry", "never-seen")).exit_code == 1


async def test_a_task_is_retried_at_a_time_or_after_a_delay(harness: Harness, shell: Shell) -> None:
    first, second = await died(harness), await died(harness)

    (one,) = await shell.json("dead", "wait", first, "--for", "3600", "--cause", "dependency_down")
    until = (await harness.task(first)).available_at
    assert until is not None
    (two,) = await shell.json("dead", "wait", second, "--until", until.isoformat())

    assert (one["state"], two["state"]) == ("PENDING", "PENDING")
    assert (await harness.task(second)).available_at == until
    assert [review.not_before for review in await reviews(harness)] == [until, until]
    wrong = (("--until", "2020-01-01T00:00:00Z"), ("--until", "soon"), (), ("--for", "-1"))
    for words in wrong:
        assert (await shell.run("dead", "wait", first, *words)).exit_code == 2


async def test_an_edited_payload_is_recorded_as_a_difference(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness)
    before = await harness.dump()
    words = ("dead", "edit", task, "--payload", '{"n": 2, "m": []}')

    dry = await shell.lines(*words, "--dry-run")
    assert await harness.dump() == before
    (found,) = await shell.json(*words, "--note", "n was wrong")

    steps = [
        {"op": "replace", "path": "/n", "value": 2, "was": 1},
        {"op": "add", "path": "/m", "value": []},
    ]
    assert [json.loads(line) for line in dry[1:]] == found["diff"] == steps
    assert (await harness.task(task)).payload == {"n": 2, "m": []}
    (review,) = await reviews(harness)
    assert (review.resolution, list(review.diff)) == ("modify_and_retry", steps)


async def test_a_payload_comes_from_a_file_or_an_editor(
    harness: Harness, shell: Shell, tmp_path: Path
) -> None:
    first, second, third = await died(harness), await died(harness), await died(harness)
    file, editor = tmp_path / "new.json", tmp_path / "editor.sh"
    file.write_text('{"n": 7}\n')
    editor.write_text('#!/bin/sh\nsed -i "s/1/8/" "$1"\ntouch -d "+5 seconds" "$1"\n')
    editor.chmod(0o755)

    await shell.lines("dead", "edit", first, "--payload-file", str(file))
    shell.env |= {"EDITOR": str(editor), "VISUAL": str(editor)}
    await shell.lines("dead", "edit", second)
    shell.env |= {"EDITOR": "true", "VISUAL": "true"}
    unsaved = await shell.run("dead", "edit", third)

    assert (await harness.task(first)).payload == {"n": 7}
    assert (await harness.task(second)).payload == {"n": 8}
    assert unsaved.exit_code == 1
    assert (await harness.task(third)).state is State.DEAD_LETTERED


@pytest.mark.parametrize(
    "payload", ["{", "NaN", '{"a": 1, "a": 2}', '{"n": 1}', '"' + "x" * 300_000 + '"']
)
async def test_an_invalid_payload_changes_nothing(
    harness: Harness, shell: Shell, payload: str
) -> None:
    task = await died(harness)
    before = await harness.dump()

    found = await shell.run("dead", "edit", task, "--payload", "-", given=payload)

    assert found.exit_code in (1, 2)
    assert await harness.dump() == before


@pytest.mark.parametrize(
    "wrong",
    [(), ("TASK", "--all"), ("TASK", "--cause", "a b"), ("TASK", "--by", "ada"),
     ("TASK", "--note", "x" * 5000), ("--cluster", "zz")],
)  # fmt: skip
async def test_invalid_options_change_nothing(
    harness: Harness, shell: Shell, wrong: tuple[str, ...]
) -> None:
    task = await died(harness)
    before = await harness.dump()

    found = await shell.run("dead", "retry", *(task if word == "TASK" else word for word in wrong))

    assert found.exit_code == 2
    assert await harness.dump() == before
