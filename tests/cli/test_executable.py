"""Real processes: `python -m rqueue`, its signals, a terminal, and a worker in bash."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from rqueue import State
from tests.harness import NAME, Harness
from tests.queue.until import claims_waiting, until
from tests.servers import Server

ROOT = Path(__file__).parent.parent.parent
PROGRAM = (sys.executable, "-m", "rqueue")
WORKER = ("bash", str(ROOT / "examples" / "bash_worker.sh"), "shout")
PATIENCE_SEC = 60
# A start comes right after its claim; only a renewal is is_renewed so much later.
LATER = timedelta(milliseconds=500)


def environment(server: Server, **more: str) -> dict[str, str]:
    own = {"RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME, "COLUMNS": "100"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **own, **more}


@asynccontextmanager
async def process(
    server: Server, *words: str, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in its own session; all processes of the session are killed at the end."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *words, stdout=pipe, stderr=pipe, env=environment(server, **more), start_new_session=True
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            os.killpg(started.pid, signal.SIGKILL)
        await started.communicate()


async def rqueue(server: Server, *words: str, **more: str) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr of a command."""
    async with process(server, *PROGRAM, *words, **more) as started:
        out, err = await started.communicate()
        return started.returncode, out.decode(), err.decode()


async def test_the_module_is_the_command(valkey: Server) -> None:
    code, out, err = await rqueue(valkey, "--version")

    assert (code, err) == (0, "")
    assert out.startswith("rqueue, version ")


async def test_an_error_is_one_line_without_a_traceback(valkey: Server) -> None:
    code, out, err = await rqueue(valkey, "task", "no-such-task")

    assert (code, out) == (1, "")
    assert err == "rqueue: no-such-task was not found: never submitted, or ended and expired\n"


async def test_an_unavailable_postgres_is_one_line_without_a_traceback(valkey: Server) -> None:
    away = {
        "RQUEUE_POSTGRES_URL": "postgresql://ada:secret@127.0.0.1:1/rqueue",
        "RQUEUE_CALL_TIMEOUT_SEC": "1",
    }

    code, out, err = await rqueue(valkey, "archive", "search", **away)

    assert (code, out) == (4, "")
    assert err == "rqueue: the server did not answer: PostgreSQL PoolTimeout\n"


async def test_rich_is_imported_only_for_a_terminal(valkey: Server) -> None:
    run = "import sys; from rqueue.cli.main import cli; cli(['counts'], standalone_mode=False)"
    report = "print('rich' in sys.modules, file=sys.stderr)"

    async with process(valkey, sys.executable, "-c", f"{run}; {report}") as started:
        _, err = await started.communicate()

    assert err.decode() == "False\n"


async def test_a_terminal_gets_a_table(alone: Harness, valkey: Server) -> None:
    await alone.queue.enqueue("code")
    master, slave = pty.openpty()
    try:
        started = await asyncio.create_subprocess_exec(
            *PROGRAM, "queues", stdout=slave, stderr=slave, env=environment(valkey)
        )
        await started.wait()
        text = os.read(master, 10_000).decode()
    finally:
        os.close(slave)
        os.close(master)

    assert started.returncode == 0
    assert "───" in text
    assert NAME in text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_stopped_claim_leaves_no_waiting_claim(
    alone: Harness, valkey: Server, number: signal.Signals, *, code: int
) -> None:
    async with process(valkey, *PROGRAM, "claim", "--wait", "60") as started:
        await alone.queue.enqueue("code", delay=60)
        await claims_waiting(alone, 1)
        started.send_signal(number)
        out, err = await started.communicate()

    assert (started.returncode, out, err) == (code, b"", b"")
    handle = await alone.queue.enqueue("code")
    assert await handle.status() is State.READY


async def test_an_interrupt_during_the_start_is_exit_130(valkey: Server, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "slow.py").write_text(
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(60)\n"
    )
    words = (*PROGRAM, "worker", "slow:queue")
    async with process(valkey, *words, PYTHONPATH=str(tmp_path)) as started:

        async def is_starting() -> bool:
            return begun.exists()

        await until(is_starting)
        started.send_signal(signal.SIGINT)
        out, err = await started.communicate()

    assert (started.returncode, out, err) == (130, b"", b"")


async def test_a_worker_in_bash_completes_tasks(alone: Harness, valkey: Server) -> None:
    first = await alone.queue.enqueue("shout", {"say": "hello"})

    async with process(valkey, *WORKER, "tr", "a-z", "A-Z"):
        assert await first.result(timeout=PATIENCE_SEC) == '{"SAY": "HELLO"}'
        second = await alone.queue.enqueue("shout", "again")
        assert await second.result(timeout=PATIENCE_SEC) == "AGAIN"


async def test_a_worker_in_bash_fails_with_the_error_output_of_its_command(
    alone: Harness, valkey: Server
) -> None:
    handle = await alone.queue.enqueue("shout", {}, max_attempts=1)
    command = ("sh", "-c", "echo no paper >&2; exit 7")

    async with process(valkey, *WORKER, *command):
        await alone.queue._internals.ended(handle.id)

    task = await handle.task()
    assert (task.state, task.last_error) == (State.DEAD_LETTERED, "no paper")


async def test_a_worker_in_bash_renews_the_lease_of_a_long_task(
    alone: Harness, valkey: Server, tmp_path: Path
) -> None:
    handle = await alone.queue.enqueue("shout", "slow")
    go = tmp_path / "go"
    command = ("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done; cat")

    async with process(valkey, *WORKER, *command, BEAT_SEC="0.1"):

        async def is_renewed() -> bool:
            claim = (await handle.task()).claim
            return claim is not None and claim.heartbeat_at > claim.claimed_at + LATER

        await until(is_renewed)
        go.touch()

        assert await handle.result(timeout=PATIENCE_SEC) == "slow"
