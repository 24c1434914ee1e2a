"""Commands for workers written in a shell, which share only a token."""

from __future__ import annotations

import re

import pytest

from rqueue import State
from tests.cli.conftest import Shell
from tests.harness import Harness

CLAIMED = re.compile(r"task_[0-9A-Z]{26} \d+:[\w-]{22}")


async def claimed(shell: Shell, *words: str) -> tuple[str, str]:
    """Runs `rqueue claim` and returns the id and the token."""
    (line,) = await shell.lines("claim", "--wait", "0", *words)
    id, token = line.split(" ")
    return id, token


async def test_a_claim_without_a_task_is_exit_1_without_output(
    harness: Harness, shell: Shell
) -> None:
    await harness.queue.enqueue("other")

    result = await shell.run("claim", "--type", "code", "--wait", "0")

    assert (result.exit_code, result.output) == (1, "")


@pytest.mark.parametrize(
    "words",
    [
        ("start",),
        ("heartbeat",),
        ("spend", "--usd", "1"),
        ("complete",),
        ("fail", "--message", "no"),
        ("release",),
    ],
    ids=lambda words: words[0],
)
async def test_a_wrong_token_is_exit_3_and_changes_nothing(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    lease = await harness.running()
    before = await harness.dump()

    result = await shell.run(words[0], lease.id, "--token", "1:not-the-token", *words[1:])

    assert result.exit_code == 3
    assert result.stderr == f"rqueue: the lease of {lease.id} is no longer held; " + (
        "stop working on the task and write nothing for it\n"
    )
    after = await harness.dump()
    # A renewal records the worker's heartbeat; nothing else may change.
    assert {key: after[key] for key in before if "workers" not in key} == {
        key: before[key] for key in before if "workers" not in key
    }


async def test_an_unknown_task_is_exit_1(harness: Harness, shell: Shell) -> None:
    unknown = "task_01M7HXQAP3FHE8EP73QYYKDB00"

    result = await shell.run("complete", unknown, "--token", "1:x")

    assert result.exit_code == 1
    assert result.stderr.startswith(f"rqueue: {unknown} was not found")


@pytest.mark.parametrize(
    "words",
    [
        ("complete", "mine", "--token", "\udcff"),
        ("complete", "mine", "--token", ""),
        ("complete", "mine", "--token", "1:x", "--result", "\udcff"),
        ("complete", "mine", "--token", "1:x", "--text", "\udcff"),
        ("enqueue", "code", "\udcff"),
        ("enqueue", "code", "--tag", "\udcff"),
        ("enqueue", "code", "--set", "title=\udcff"),
        ("claim", "--worker", "\udcff"),
        ("claim", "--wait", "nan"),
        ("fail", "mine", "--token", "1:x", "--retry-after", "nan"),
        ("fail", "mine", "--token", "1:x", "--retry-after", "-1"),
        ("fail", "mine", "--token", "1:x", "--retry-after", "inf"),
        ("priority", "mine", "nan"),
        ("cancel", "mine", "--reason", "\udcff"),
        ("pause", "--type", "\udcff"),
    ],
    ids=lambda words: " ".join(words).replace("\udcff", "bytes"),
)
async def test_arguments_that_are_not_utf8_are_wrong_usage(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    await harness.running(external_id="mine")
    before = await harness.dump()

    result = await shell.run(*words)

    assert result.exit_code == 2, result.output
    assert await harness.dump() == before


async def test_a_missing_token_is_wrong_usage(shell: Shell) -> None:
    result = await shell.run("complete", "task_01M7HXQAP3FHE8EP73QYYKDB00")

    assert result.exit_code == 2
    assert "--token" in result.stderr


async def test_a_claim_prints_id_and_token_of_a_running_task(
    harness: Harness, shell: Shell
) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1})

    (line,) = await shell.lines("claim", "--type", "code", "--worker", "bash-1", "--wait", "0")

    assert CLAIMED.fullmatch(line)
    assert line.startswith(handle.id)
    task = await handle.task()
    assert task.state is State.RUNNING
    assert task.claim is not None
    assert task.claim.agent_id == "bash-1"


async def test_a_waiting_claim_gets_the_next_task(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", delay=3600)
    await harness.queue.run_now(handle.id)

    (line,) = await shell.lines("claim", "--type", "code", "--type", "docs", "--wait", "30")

    assert line.startswith(handle.id)


async def test_a_claim_as_json_is_the_whole_task(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("code", {"path": "ä.png"}, tags=["a"])

    (task,) = await shell.json("claim", "--worker", "w9")

    assert task["payload"] == {"path": "ä.png"}
    assert (task["state"], task["tags"], task["worker"]) == ("RUNNING", ["a"], "w9")
    assert task["token"].startswith("1:")


async def test_a_claim_as_json_has_the_values_of_references(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag() as dag:
        up = dag.add({"type": "code"})
        seen = up.output.reference
        dag.add({"type": "docs", "payload": {"x": up.output}, "context_refs": [seen]}, after=up)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete({"a": 1})

    (task,) = await shell.json("claim", "--worker", "w9")

    assert task["payload"] == {"x": {"a": 1}}
    assert task["references"] == {seen: {"a": 1}}


async def test_a_claim_takes_only_tasks_that_it_can_run(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", required_capabilities=["gpu"])

    assert (await shell.run("claim", "--wait", "0")).exit_code == 1
    id, _ = await claimed(shell, "--capability", "gpu")

    assert id == handle.id


async def test_a_claim_may_be_started_later(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code")

    id, token = await claimed(shell, "--no-start")

    assert await handle.status() is State.CLAIMED
    assert await shell.lines("start", id, "--token", token) == [f"{id} RUNNING"]
    assert await handle.status() is State.RUNNING


async def test_a_heartbeat_renews_the_lease(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    await harness.age(lease, 29)

    assert await shell.lines("heartbeat", lease.id, "--token", lease.token) == []

    await harness.reaper.tick()
    claim = (await harness.task(lease.id)).claim
    assert claim is not None
    assert (claim.lease_expires_at - claim.heartbeat_at).total_seconds() == 30
    assert claim.heartbeat_at > claim.claimed_at


async def test_the_token_may_come_from_the_environment(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    shell.env["RQUEUE_TOKEN"] = lease.token

    assert await shell.json("heartbeat", lease.id) == [{"id": lease.id, "held": True}]


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ((), None),
        (("--result", '{"n": [1, 2.5]}'), {"n": [1, 2.5]}),
        (("--result", "-"), "from stdin"),
        (("--text", "not { JSON"), "not { JSON"),
    ],
)
async def test_the_result_is_stored_unchanged(
    harness: Harness, shell: Shell, words: tuple[str, ...], result: object
) -> None:
    lease = await harness.running()

    lines = await shell.lines(
        "complete", lease.id, "--token", lease.token, *words, given='"from stdin"'
    )

    assert lines == [f"{lease.id} COMPLETED"]
    task = await harness.task(lease.id)
    assert (task.state, task.result) == (State.COMPLETED, result)


async def test_a_repeated_complete_succeeds(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    words = ("complete", lease.id, "--token", lease.token, "--text", "once")

    first, second = await shell.lines(*words), await shell.lines(*words)

    assert first == second
    assert (await harness.queue.counts())[State.COMPLETED] == 1


async def test_a_result_that_is_not_json_is_wrong_usage(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()

    result = await shell.run("complete", lease.id, "--token", lease.token, "--result", "{oops")

    assert result.exit_code == 2
    assert "--result: is not JSON" in result.stderr
    assert (await harness.task(lease.id)).state is State.RUNNING


async def test_a_rate_limit_spends_no_attempt_and_slows_the_type_down(
    harness: Harness, shell: Shell
) -> None:
    handle = await harness.queue.enqueue("code", max_attempts=1)
    words = ("--reason", "rate_limit", "--retry-after", "60")
    for _ in range(3):
        id, token = await claimed(shell)
        lines = await shell.lines("fail", id, "--token", token, *words)
        again = await shell.lines("fail", id, "--token", token, *words)
        (slow,) = await shell.json("slowdown", "list")
        assert lines == again == [f"{handle.id} RETRYING"]
        assert slow["type"] == "code"
        await harness.queue.limits.lift_slowdown("code")
        assert await harness.queue.run_now(id)

    task = await harness.task(handle.id)
    assert (task.attempts, task.parks, task.failure_history) == (0, 3, ())


async def test_a_failure_is_recorded_and_retried(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    words = ("--reason", "timeout", "--message", "hung\nsecond line", "--retry-after", "5")

    lines = await shell.lines("fail", lease.id, "--token", lease.token, *words)

    assert lines == [f"{lease.id} RETRYING"]
    task = await harness.task(lease.id)
    assert (task.attempts, task.last_error) == (1, "hung\nsecond line")
    (record,) = task.failure_history
    assert (record.agent, record.reason, record.epoch) == ("w1", "timeout", 1)


async def test_attempts_are_counted_over_all_processes(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", max_attempts=2)
    states = []
    for _ in range(2):
        id, token = await claimed(shell)
        states += await shell.lines("fail", id, "--token", token, "--message", "no")
        await harness.make_due(id)
        await harness.promoter.tick()

    assert states == [f"{handle.id} RETRYING", f"{handle.id} DEAD_LETTERED"]
    assert [record.attempt for record in (await handle.task()).failure_history] == [1, 2]


async def test_a_permanent_failure_is_dead(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()

    lines = await shell.lines("fail", lease.id, "--token", lease.token, "--permanent")

    assert lines == [f"{lease.id} DEAD_LETTERED"]


async def test_an_unknown_reason_is_wrong_usage(harness: Harness, shell: Shell) -> None:
    result = await shell.run("fail", "x", "--token", "1:x", "--reason", "whatever")

    assert result.exit_code == 2
    assert "heartbeat_timeout" in result.stderr


async def test_a_released_task_is_ready_and_spends_no_attempt(
    harness: Harness, shell: Shell
) -> None:
    lease = await harness.running()

    assert await shell.lines("release", lease.id, "--token", lease.token) == [f"{lease.id} READY"]

    task = await harness.task(lease.id)
    assert (task.state, task.attempts) == (State.READY, 0)


async def test_costs_are_added_until_the_budget_is_exceeded(harness: Harness, shell: Shell) -> None:
    lease = await harness.running(max_cost_usd=0.5)
    holding = (lease.id, "--token", lease.token)

    assert await shell.lines("spend", *holding, "--usd", "0.25", "--tokens-in", "7") == []
    assert (await harness.task(lease.id)).cost_usd == 0.25
    (printed,) = await shell.json("spend", *holding, "--usd", "0.25")
    assert printed["usd"] == 0.25
    found = await shell.run("spend", *holding, "--usd", "0.01")

    assert found.exit_code == 3
    assert "max_cost_usd" in found.stderr
    task = await harness.task(lease.id)
    assert (round(task.cost_usd, 2), task.tokens_used.input) == (0.51, 7)
