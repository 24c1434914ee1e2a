"""A fresh Redis 7 on a free port, without persistence. It does not use rqueue."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from pathlib import Path

START_SEC = 20.0


@contextmanager
def fresh(folder: Path) -> Iterator[redis.Redis]:
    """A client of a new server, which is stopped at the end of the block."""
    port = free_port()
    where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    keep = ["--save", "", "--appendonly", "no"]
    with (folder / "redis.log").open("ab") as log:
        process = subprocess.Popen([program(), *where, *keep], stdout=log, stderr=log)
    client = redis.Redis(port=port, protocol=2)
    try:
        wait(client, process)
        yield client
    finally:
        client.close()
        process.kill()
        process.wait()


def program() -> str:
    """The server's program; without it the whole run ends."""
    found = shutil.which("redis-server")
    if found is None:
        raise SystemExit("redis-server (7.0 or newer) is needed on the PATH to measure the peers")
    return found


def version() -> str:
    """The server's release."""
    output = subprocess.run([program(), "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"v=(\S+)", output.stdout)
    return found[1] if found else output.stdout.strip()


def address(client: redis.Redis) -> str:
    """The server's URL."""
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


def wait(client: redis.Redis, process: subprocess.Popen[bytes]) -> None:
    """Returns when the server answers."""
    until = time.monotonic() + START_SEC
    while True:
        try:
            client.ping()
        except redis.ConnectionError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])
