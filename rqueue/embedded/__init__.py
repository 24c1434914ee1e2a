"""The servers of the `embedded` extra: a Valkey and a PostgreSQL per data directory.

All processes that use the directory share them. Each of them holds a shared lock on the server's
`owners` file while it runs. A small watcher process starts the server and waits for the exclusive
lock: it gets the lock when the last owner has exited or crashed, and then stops the server. See
shares.py and watcher.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rqueue.embedded import postgres, shares, valkey, watcher
from rqueue.embedded.shares import Kind
from rqueue.embedded.valkey import binary

__all__ = [
    "binary",
    "has_postgres",
    "start",
    "start_postgres",
    "start_temporary",
    "stop",
    "stop_postgres",
]


def start(data_dir: str | Path) -> str:
    """Starts the directory's Valkey if it is not running; returns its URL.

    Blocks until it answers. It runs until every process that called this has ended, or has
    called `stop` the same number of times.
    """
    folder = Path(data_dir).absolute()

    def command(socket: str) -> list[str]:
        return valkey.command(server, folder, socket)

    server = binary()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = Kind("valkey", "valkey.sock", folder / "valkey.log", command)
    return f"unix://{shares.acquire(folder, kind)}"


def stop(data_dir: str | Path) -> None:
    """Releases this process's share; the server stops when the last share is released."""
    shares.release(Path(data_dir).absolute())


def start_temporary(*, databases: int) -> str:
    """Starts a Valkey for this process alone, without persistence; returns its URL.

    The server and its directory are removed when the process has exited or crashed.
    """
    server = binary()
    folder = Path(tempfile.mkdtemp(prefix="rqueue-"))

    def command(socket: str) -> list[str]:
        return valkey.temporary(server, folder, socket, databases)

    kind = Kind(watcher.TEMPORARY, "valkey.sock", folder / "watcher.log", command)
    return f"unix://{shares.acquire(folder, kind)}"


def has_postgres() -> bool:
    """Whether the PostgreSQL of the extra is installed."""
    return postgres.installed()


def start_postgres(data_dir: str | Path) -> str:
    """Creates and starts the directory's PostgreSQL if necessary; returns its URL, like `start`.

    It has a database `rqueue`, whose search path begins with a schema of that name.
    """
    folder = Path(data_dir).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = postgres.prepare(folder)

    def command(socket: str) -> list[str]:
        return postgres.command(own, Path(socket).parent)

    kind = Kind("postgres", postgres.SOCKET, own / "watcher.log", command)
    return postgres.url(Path(shares.acquire(own, kind)).parent)


def stop_postgres(data_dir: str | Path) -> None:
    """Releases this process's share of the PostgreSQL, like `stop`."""
    shares.release(postgres.home(Path(data_dir).absolute()))
