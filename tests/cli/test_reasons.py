"""`rqueue why`."""

from __future__ import annotations

from tests.cli.conftest import Shell
from tests.harness import Harness
from tests.lua.worker.crew import enrol


async def test_what_holds_it_back_is_told_line_by_line(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w9", "run")
    handle = await harness.queue.enqueue("code")
    await harness.queue.pause(type="code")
    await harness.queue.limits.open_breaker("code", 60)

    lines = await shell.lines("why", handle.id)

    assert lines[0] == f"{handle.id} is READY"
    assert "- type code is paused" in lines
    assert any(line.startswith("- the breaker of its type is open until 20") for line in lines)
    assert lines[-1] == "it can start when none of these blocks it"


async def test_a_time_alone_gives_the_earliest_start(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w9", "run")
    handle = await harness.queue.enqueue("code", delay=60)

    (found,) = await shell.json("why", handle.id)

    (hold,) = found["holds"]
    assert (hold["word"], hold["told"]) == ("time", "waits for its start time")
    assert found["earliest"] == hold["until"]
    assert (await shell.lines("why", handle.id))[-1].startswith("it can start at 20")


async def test_with_nothing_in_its_way_it_is_its_turn(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w9", "run")
    handle = await harness.queue.enqueue("code")

    assert (await shell.lines("why", handle.id))[-1] == "nothing blocks it: it is next"


async def test_with_a_limit_key_it_is_a_matter_of_turns(harness: Harness, shell: Shell) -> None:
    await enrol(harness, "w9", "run")
    await harness.queue.enqueue_many([{"type": "code", "limit_key": "big"}] * 9)
    handle = await harness.queue.enqueue("code", limit_key="small")

    lines = await shell.lines("why", handle.id)
    (found,) = await shell.json("why", handle.id)

    assert lines[-1] == "nothing blocks it: 1 tasks have their turn before it"
    assert (found["turns"], found["ahead"]) == (1, 9)


async def test_one_that_has_ended_is_a_line_and_a_code(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    assert (await shell.lines("why", lease.id))[-1] == "a worker holds it"
    await lease.complete()

    assert (await shell.run("why", lease.id)).exit_code == 3
