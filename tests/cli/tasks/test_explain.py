"""`rqueue explain` and `rqueue why`."""

from __future__ import annotations

import json

from rqueue.task.ids import new_task_id
from tests.cli.conftest import Shell
from tests.harness import Harness
from tests.lua.worker.registered import register_worker


async def test_the_terms_are_a_sum(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("mail", priority=1)
    handle = await harness.queue.enqueue(
        "code", priority=20, expires=1800, required_capabilities=["gpu"], agent_name="ada"
    )

    lines = await shell.lines("explain", handle.id)

    assert lines[0] == f"{handle.id} is READY"
    assert [line.split()[0] for line in lines[2:-2]] == [
        "TERM", "base", "age", "deadline", "effective,",
    ]  # fmt: skip
    assert lines[3].split()[1] == "20.00"
    assert "0s at 0.1 a minute" in lines[4]
    assert "left; 18." in lines[5]
    assert lines[-1].startswith(
        "at position 1 in lane 2 (type code, agent ada, capabilities gpu); 1 tasks"
    )


async def test_the_critical_path_is_a_separate_term(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag("Ship") as dag:
        build = dag.add(harness.queue.call("build"))
        test = dag.add(harness.queue.call("test"), after=[build])

    lines = await shell.lines("explain", build.id)
    waiting = await shell.lines("explain", test.id)

    assert ["critical", "path", "-10.00"] in [line.split()[:3] for line in lines]
    assert waiting[-1].startswith("PENDING, not in its lane; it would be at position 1")


async def test_json_has_the_whole_explanation(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", priority=20)

    (line,) = await shell.lines("explain", handle.id, "--json")

    found = json.loads(line)
    assert (found["id"], found["base"], found["tier"]) == (handle.id, 20, "high")
    assert found["lane"]["type"] == "code"
    assert (found["position"], found["ahead"], found["stands"]) == (1, 0, True)


async def test_a_leased_task_names_its_worker(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()

    lines = await shell.lines("explain", lease.id)

    assert lines[-1] == "held by w1, from lane 1 (type code)"


async def test_an_ended_task_is_exit_3_and_an_unknown_one_exit_1(
    harness: Harness, shell: Shell
) -> None:
    lease = await harness.running()
    await lease.complete()

    assert (await shell.run("explain", lease.id)).exit_code == 3
    assert (await shell.run("explain", new_task_id())).exit_code == 1


async def test_each_reason_that_blocks_a_task_is_a_line(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w9", "run")
    handle = await harness.queue.enqueue("code")
    await harness.queue.pause(type="code")
    await harness.queue.limits.open_breaker("code", 60)

    lines = await shell.lines("why", handle.id)

    assert lines[0] == f"{handle.id} is READY"
    assert "- type code is paused" in lines
    assert any(line.startswith("- the breaker of its type is open until 20") for line in lines)
    assert lines[-1] == "it can start when none of these blocks it"


async def test_a_start_time_gives_the_earliest_start(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w9", "run")
    handle = await harness.queue.enqueue("code", delay=60)

    (found,) = await shell.json("why", handle.id)

    (hold,) = found["holds"]
    assert (hold["word"], hold["told"]) == ("time", "waits for its start time")
    assert found["earliest"] == hold["until"]
    assert (await shell.lines("why", handle.id))[-1].startswith("it can start at 20")


async def test_a_task_without_a_block_is_next(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w9", "run")
    handle = await harness.queue.enqueue("code")

    assert (await shell.lines("why", handle.id))[-1] == "nothing blocks it: it is next"


async def test_with_a_limit_key_the_turns_before_it_are_counted(
    harness: Harness, shell: Shell
) -> None:
    await register_worker(harness, "w9", "run")
    await harness.queue.enqueue_many([{"type": "code", "limit_key": "big"}] * 9)
    handle = await harness.queue.enqueue("code", limit_key="small")

    lines = await shell.lines("why", handle.id)
    (found,) = await shell.json("why", handle.id)

    assert lines[-1] == "nothing blocks it: 1 tasks have their turn before it"
    assert (found["turns"], found["ahead"]) == (1, 9)


async def test_why_of_an_ended_task_is_exit_3(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    assert (await shell.lines("why", lease.id))[-1] == "a worker holds it"
    await lease.complete()

    assert (await shell.run("why", lease.id)).exit_code == 3
