"""The supervisor: processes that are stopped, do not answer, or end too soon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from rqueue.process import supervisor
from rqueue.process.supervisor import Subprocess, Supervisor
from tests.worker.running import PATIENCE_SEC, until

# The tests replace `supervisor.start`.
START = supervisor.start
# A process that sends nothing and ends on a signal, or after the test.
MUTE = [sys.executable, "-c", "import signal; signal.alarm(60); signal.pause()"]
SPEAKING = """
import os, socket
line = socket.socket(fileno=int(os.environ["RQUEUE_PARENT_FD"])).makefile("rw")
def send(text):
    line.write(text + "\\n")
    line.flush()
"""


def python_command(code: str) -> list[str]:
    """A process that runs this code with its end of the connection."""
    return [sys.executable, "-c", SPEAKING + code]


@asynccontextmanager
async def running_processes(command: Sequence[str], count: int = 2) -> AsyncIterator[Supervisor]:
    """The processes of a command, stopped at the end."""
    made = Supervisor(command, count)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await asyncio.wait_for(running, PATIENCE_SEC)


async def test_a_signal_that_comes_while_a_process_is_started_reaches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting, going_on = asyncio.Event(), asyncio.Event()

    async def slow(command: Sequence[str]) -> Subprocess:
        one = await START(command)
        starting.set()
        await going_on.wait()
        return one

    monkeypatch.setattr(supervisor, "start", slow)
    made = Supervisor(MUTE, 2)
    running = asyncio.create_task(made.run())
    await starting.wait()
    made.stop(signal.SIGTERM)
    going_on.set()

    await asyncio.wait_for(running, PATIENCE_SEC)

    assert not made.running


async def test_a_process_that_does_not_answer_for_too_long_is_not_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "ANSWER_SEC", 0.01)

    async with running_processes(MUTE) as made:
        await until(lambda: len(made.running) == 2)
        fresh = await made.health()
        monkeypatch.setattr(supervisor, "STUCK_SEC", 0.01)
        later = await made.health()

    assert (fresh["alive"], fresh["ready"], fresh["silent"]) == (True, False, 2)
    assert (later["alive"], later["ready"], later["silent"]) == (False, False, 2)


async def test_a_late_answer_completes_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "ANSWER_SEC", 0.01)
    late = """
for word in line:
    if word.startswith("health"):
        signal = line.readline()
        send('["health", {"alive": true, "ready": true}]')
"""

    async with running_processes(python_command(late), count=1) as made:
        await until(lambda: made.running)
        (one,) = made.running.values()
        first = await made.health()
        silent_sec = one.silent_sec
        # The next word lets it continue.
        one.send("go")
        await until(lambda: not one.requests)

        assert (first["silent"], silent_sec > 0, one.silent_sec) == (1, True, 0)


async def test_a_process_that_ends_at_its_start_is_replaced_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="rqueue.worker")
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SEC", 0.001)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE_SEC", 0.003)

    async with running_processes(python_command("""send('["limit", "--max-rss 20"]')"""), count=1):
        await until(lambda: count_lines(caplog, "process replaced") >= 3)

    pauses = [
        vars(line)["another_in_sec"] for line in caplog.records if line.msg == "process replaced"
    ]
    assert pauses[:3] == [0.002, 0.003, 0.003]
    assert count_lines(caplog, "--max-rss 20 is reached right after the start of a process") == 1


async def test_a_process_that_soon_reached_max_tasks_is_replaced_without_a_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="rqueue.worker")

    async with running_processes(python_command("""send('["limit", "--max-tasks 5"]')"""), count=1):
        await until(lambda: count_lines(caplog, "process replaced") >= 2)

    pauses = {
        vars(line)["another_in_sec"] for line in caplog.records if line.msg == "process replaced"
    }
    assert pauses == {0.0}
    assert count_lines(caplog, "--max-tasks 5 is reached right after the start of a process") == 0


async def test_all_processes_get_their_slots_also_those_started_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="rqueue.worker")
    # It ends when there are three, and reports that as its limit.
    three = """
for word in line:
    if word == "slots 3\\n":
        send('["limit", "--max-tasks 3"]')
        break
"""
    made = Supervisor(python_command(three), 2, slots=1)
    running = asyncio.create_task(made.run())
    await until(lambda: len(made.running) == 2)

    made.step(-1)
    assert made.slots == 1
    made.step(1)
    made.step(1)
    # The two running processes, and two that got it at their start.
    await until(lambda: count_lines(caplog, "process replaced") >= 4)
    made.stop()
    await asyncio.wait_for(running, PATIENCE_SEC)

    assert made.slots == 3


def count_lines(caplog: pytest.LogCaptureFixture, event: str) -> int:
    """How many lines there are of an event."""
    return [line.getMessage() for line in caplog.records].count(event)


async def test_a_process_that_cannot_be_set_up_ends_all_processes() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit(5)"]
    made = Supervisor(command, 2)

    await asyncio.wait_for(made.run(), PATIENCE_SEC)

    assert made.refused == 5


async def test_a_process_refused_by_redis_ends_all_processes() -> None:
    refused = """send('["open", true]'); send('["limit", ""]'); os._exit(5)"""
    made = Supervisor(python_command(refused), 2)

    await asyncio.wait_for(made.run(), PATIENCE_SEC)

    assert made.refused == 5


async def test_the_messages_of_a_process_that_ended_before_a_word_was_sent_are_read() -> None:
    one = await START(python_command("""send('["open", true]'); os._exit(5)"""))
    # The event loop runs nothing until the process has ended; a thread may have reaped it.
    with suppress(OSError):
        os.waitid(os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222

    one.resize(1)

    assert await one.ended() == 5
    assert one.opened


async def test_a_process_that_a_task_ends_with_the_setup_exit_code_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SEC", 0.001)

    # It ran, and was killed before it could report anything.
    async with running_processes(python_command("""send('["open", true]'); os._exit(5)""")) as made:
        await until(lambda: count_lines(caplog, "process died") >= 3)

        assert not made.stopping.is_set()
    assert made.refused == 0


@pytest.mark.parametrize("others", [1, 0])
async def test_a_refused_replacement_is_retried_while_the_others_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, others: int
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SEC", 0.001)
    works = "send('[\"up\", true]'); line.readline(); line.readline()"
    dies = "send('[\"up\", true]'); os._exit(9)"
    commands = [*[python_command(works)] * others, python_command(dies)]
    refused = [sys.executable, "-c", "import sys; sys.exit(5)"]

    async def one(command: Sequence[str]) -> Subprocess:
        return await START(commands.pop(0) if commands else refused)

    monkeypatch.setattr(supervisor, "start", one)
    async with running_processes([], count=1 + others) as made:
        await until(lambda: count_lines(caplog, "process died") >= 4)
        works_on = [each.process.returncode for each in made.running.values() if each.up]

    pauses = [vars(line)["another_in_sec"] for line in caplog.records if line.msg == "process died"]
    assert pauses[:4] == [0.002, 0.004, 0.008, 0.016]
    assert (works_on, made.refused) == ([None] * others, 0)


async def test_each_process_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    async def noted(command: Sequence[str]) -> Subprocess:
        begun.append(list(command[len(MUTE) :]))
        return await START(MUTE)

    monkeypatch.setattr(supervisor, "start", noted)
    made = Supervisor(MUTE, 2, name="night")
    running = asyncio.create_task(made.run())
    await until(lambda: len(made.running) == 2)

    made.stop()
    await asyncio.wait_for(running, PATIENCE_SEC)

    assert sorted(begun) == [["--name", "night-1"], ["--name", "night-2"]]
