"""`rqueue explain`: the sum for people, the same as JSON, and what cannot be explained."""

from __future__ import annotations

import json

from rqueue.task.ids import new_task_id
from tests.cli.conftest import Shell
from tests.harness import Harness


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


async def test_a_path_is_a_line_of_its_own(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag("Ship") as dag:
        build = dag.add(harness.queue.call("build"))
        test = dag.add(harness.queue.call("test"), after=[build])

    lines = await shell.lines("explain", build.id)
    waiting = await shell.lines("explain", test.id)

    assert ["critical", "path", "-10.00"] in [line.split()[:3] for line in lines]
    assert waiting[-1].startswith("PENDING, not in its lane; it would be at position 1")


async def test_as_json_it_is_whole(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", priority=20)

    (line,) = await shell.lines("explain", handle.id, "--json")

    found = json.loads(line)
    assert (found["id"], found["base"], found["tier"]) == (handle.id, 20, "high")
    assert found["lane"]["type"] == "code"
    assert (found["position"], found["ahead"], found["stands"]) == (1, 0, True)


async def test_one_in_hand_names_its_worker(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()

    lines = await shell.lines("explain", lease.id)

    assert lines[-1] == "held by w1, from lane 1 (type code)"


async def test_what_has_ended_is_exit_3_and_what_is_not_there_exit_1(
    harness: Harness, shell: Shell
) -> None:
    lease = await harness.running()
    await lease.complete()

    assert (await shell.run("explain", lease.id)).exit_code == 3
    assert (await shell.run("explain", new_task_id())).exit_code == 1
