"""A worker as a real process whose handlers have their own: they never outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.house import NAME, House, build
from tests.servers import Server
from tests.services.working import until

APP = f'''
import os, re, signal, sys
from pathlib import Path
from rqueue import Context, Queue

queue = Queue("{NAME}")

@queue.task("where", kind="process")
async def where(path: str) -> None:
    print("said by the handler")
    Path(path).write_text(str(os.getpid()))

@queue.task("deaf", kind="process")
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
async def house(valkey: Server) -> AsyncIterator[House]:
    connection = valkey.connection()
    client = valkey.client()
    house = build(connection, client)
    yield house
    await house.queue.aclose()
    await connection.aclose()
    await client.aclose()


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def is_gone(pid: int) -> bool:
    """Whether nothing of it runs; its new parent may not have looked yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("type", ["where", "deaf"])
async def test_a_process_ends_with_a_worker_that_is_killed(
    house: House, valkey: Server, tmp_path: Path, type: str
) -> None:
    path = tmp_path / "pid"
    with worker(valkey, tmp_path) as parent:
        await house.queue.enqueue(type, {"path": str(path)})
        await until(lambda: written(path), within_sec=30)
        pid = int(written(path))
        assert not is_gone(pid)

        parent.kill()

        await until(lambda: is_gone(pid))


async def test_what_a_handler_printed_is_not_lost_with_its_process(
    house: House, valkey: Server, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    with worker(valkey, tmp_path) as parent:
        handle = await house.queue.enqueue("where", {"path": str(path)})
        await handle.result(timeout=30)

        os.kill(int(written(path)), signal.SIGKILL)
        parent.kill()
        said, _ = parent.communicate(timeout=20)

    assert said == "said by the handler\n"


async def test_a_worker_that_ends_lets_its_processes_end_in_order(
    house: House, valkey: Server, tmp_path: Path
) -> None:
    with worker(valkey, tmp_path) as parent:
        for type in ("where", "last"):
            handle = await house.queue.enqueue(type, {"path": str(tmp_path / type)})
            await handle.result(timeout=30)

        parent.send_signal(signal.SIGTERM)
        said, _ = parent.communicate(timeout=20)

    assert parent.returncode == 0
    assert is_gone(int(written(tmp_path / "where")))
    assert written(tmp_path / "last") == "in order"
    assert said == "said by the handler\n"
