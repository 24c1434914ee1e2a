"""A worker as a real process with subprocesses, which never outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import NAME, Harness, build
from tests.servers import Server
from tests.worker.running import until

APP = f'''
import os, re, signal, sys
from pathlib import Path
from rqueue import Context, Queue

queue = Queue("{NAME}")

@queue.task("where", kind="process")
async def where(path: str) -> None:
    print("printed by the handler")
    Path(path).write_text(str(os.getpid()))

@queue.task("ignores_stop", kind="process")
def deaf(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    re.match("(a+)+$", "a" * 40 + "b")  # holds the interpreter's lock for hours

@queue.task("last", kind="process")
def last(path: str) -> None:
    import atexit
    atexit.register(Path(path).write_text, "in order")
'''


@contextmanager
def worker(server: Server, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`rqueue worker` in a process, killed at the end if it still runs."""
    (folder / "app.py").write_text(APP)
    process = subprocess.Popen(
        [sys.executable, "-m", "rqueue", "worker", "app:queue"],
        cwd=folder,
        env={**os.environ, "RQUEUE_REDIS_URL": server.url, "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    connection = valkey.connection()
    client = valkey.client()
    harness = build(connection, client)
    yield harness
    await harness.queue.aclose()
    await connection.aclose()
    await client.aclose()


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a zombie whose parent has not waited for it counts
    as ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("type", ["where", "ignores_stop"])
async def test_a_process_ends_with_a_worker_that_is_killed(
    harness: Harness, valkey: Server, tmp_path: Path, type: str
) -> None:
    path = tmp_path / "pid"
    with worker(valkey, tmp_path) as parent:
        await harness.queue.enqueue(type, {"path": str(path)})
        await until(lambda: written(path), within_sec=30)
        pid = int(written(path))
        assert not is_gone(pid)

        parent.kill()

        await until(lambda: is_gone(pid))


async def test_output_of_a_handler_is_flushed_before_its_process_ends(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    with worker(valkey, tmp_path) as parent:
        handle = await harness.queue.enqueue("where", {"path": str(path)})
        await handle.result(timeout=30)

        os.kill(int(written(path)), signal.SIGKILL)
        parent.kill()
        output, _ = parent.communicate(timeout=20)

    assert output == "printed by the handler\n"


async def test_subprocesses_run_their_exit_handlers_when_the_worker_ends(
    harness: Harness, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path) as parent:
        for type in ("where", "last"):
            handle = await harness.queue.enqueue(type, {"path": str(tmp_path / type)})
            await handle.result(timeout=30)

        parent.send_signal(signal.SIGTERM)
        output, _ = parent.communicate(timeout=20)

    assert parent.returncode == 0
    assert is_gone(int(written(tmp_path / "where")))
    assert written(tmp_path / "last") == "in order"
    assert output == "printed by the handler\n"
