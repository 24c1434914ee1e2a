"""Test commands: a program in a process group of its own, which leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rqueue.errors import TaskDead
from rqueue.task.attempt.outcome import Reason
from rqueue.worker.validators.commands import TAIL_BYTES, folder_of, run
from tests.harness import opened
from tests.servers import Server
from tests.worker.running import until, working

LONG_SEC = 60.0
SLEEPS = "import time; time.sleep(600)"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def is_gone(pid: int) -> bool:
    """Whether the process is dead; a zombie counts as dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


async def test_the_exit_code_and_the_last_output_of_a_program_are_returned(tmp_path: Path) -> None:
    good = await run(python("print('fine')"), tmp_path, b"", LONG_SEC)
    bad = await run(python("import sys; print('out'); sys.exit('err')"), tmp_path, b"", LONG_SEC)

    assert good == (0, "fine")
    assert (bad.code, sorted(bad.tail.split())) == (1, ["err", "out"])


async def test_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    loud = "print('x' * 5_000_000); print('the end'); raise SystemExit(3)"

    ran = await run(python(loud), tmp_path, b"", LONG_SEC)

    assert (ran.code, len(ran.tail) <= TAIL_BYTES) == (3, True)
    assert ran.tail.endswith("the end")


async def test_a_program_may_read_the_result_from_standard_input(tmp_path: Path) -> None:
    data = b'"' + b"x" * 1_000_000 + b'"'
    reads = "import json, sys; print(len(json.load(sys.stdin)))"

    assert await run(python(reads), tmp_path, data, LONG_SEC) == (0, "1000000")
    assert await run(python("pass"), tmp_path, data, LONG_SEC) == (0, "")


async def test_a_program_gets_no_secret_of_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQUEUE_REDIS_URL", "redis://:secret@host")

    ran = await run(python("import os; print(os.environ)"), tmp_path, b"", LONG_SEC)

    assert "PATH" in ran.tail
    assert "secret" not in ran.tail


async def test_arguments_are_not_interpreted_by_a_shell(tmp_path: Path) -> None:
    ran = await run([*python("import sys; print(sys.argv[1])"), "$(id); *"], tmp_path, b"", 60)

    assert ran.tail == "$(id); *"


HAS_CHILD = (
    "import subprocess, sys, time; from pathlib import Path; "
    f"left = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]); "
    "Path('new').write_text(str(left.pid)); Path('new').rename('pid'); "
)


@pytest.mark.parametrize("end", ["timeout", "cancel", "by itself"])
async def test_processes_started_by_a_program_are_killed_with_it(tmp_path: Path, end: str) -> None:
    words = python(HAS_CHILD + ("" if end == "by itself" else "time.sleep(600)"))
    limit_sec = 3.0 if end == "timeout" else LONG_SEC
    running = asyncio.create_task(run(words, tmp_path, b"", limit_sec))
    await until((tmp_path / "pid").exists, within_sec=30)

    if end == "cancel":
        running.cancel()
    (found,) = await asyncio.gather(running, return_exceptions=True)

    codes: dict[str, Any] = {"timeout": None, "by itself": 0}
    if isinstance(found, BaseException):
        assert (end, type(found)) == ("cancel", asyncio.CancelledError)
    else:
        assert found.code == codes[end]
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: is_gone(pid))


@pytest.mark.parametrize(
    ("cwd", "inside"),
    [(".", True), ("a", True), ("a/..", True), ("..", False), ("/", False), ("link", False)],
)
def test_a_directory_outside_of_the_root_is_refused(tmp_path: Path, cwd: str, inside: bool) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to("/")

    assert (folder_of(root, cwd) is not None) is inside


async def tried(server: Server, proof: Any, **settings: Any) -> Any:
    """The record of a task whose output has to pass this test."""
    async with opened(server, **settings) as harness:

        @harness.queue.task("code")
        async def code() -> str:
            return "word"

        proven = code.options(validation="test-pass", validation_schema=proof, max_attempts=1)
        async with working(harness.queue):
            handle = await proven.enqueue()
            with pytest.raises(TaskDead):
                await handle.result(timeout=30)
        return (await harness.task(handle.id)).failure_history[0]


async def test_a_failing_test_fails_the_attempt_with_the_end_of_its_output(
    server: Server, tmp_path: Path
) -> None:
    words = python("import sys; sys.exit('1 failed: ' + sys.stdin.read())")

    record = await tried(server, words, test_commands=[words], test_dir=tmp_path)

    assert record.reason is Reason.INVALID_OUTPUT
    assert record.error == 'test-pass: exit code 1\n1 failed: "word"'


async def test_a_program_that_exceeds_its_timeout_is_killed(server: Server, tmp_path: Path) -> None:
    proof = {"command": python(SLEEPS), "timeout_sec": 0.3}

    record = await tried(server, proof, test_commands=[["*"]], test_dir=tmp_path)

    assert record.error == "test-pass: killed after 0.3 s"


async def test_a_task_runs_only_commands_that_its_worker_allows(
    server: Server, tmp_path: Path
) -> None:
    touch = ["touch", str(tmp_path / "broken-in")]

    for allowed in ([], [["touch"]], [["make", "*"]]):
        record = await tried(server, touch, test_commands=allowed, test_dir=tmp_path)
        assert "could not be checked: this worker does not run touch" in record.error
    outside = {"command": touch, "cwd": "/"}
    record = await tried(server, outside, test_commands=[["*"]], test_dir=tmp_path)
    assert "'/' is outside of this worker's test_dir" in record.error

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("proof", [["no-such-program"], {"command": ["ls"], "cwd": "no/such"}])
async def test_a_command_that_cannot_run_is_reported(
    server: Server, tmp_path: Path, proof: Any
) -> None:
    record = await tried(server, proof, test_commands=[["*"]], test_dir=tmp_path)

    assert record.reason is Reason.ERROR
    assert "test-pass could not be checked: [Errno 2]" in record.error
