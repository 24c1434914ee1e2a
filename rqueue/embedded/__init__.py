"""The servers of the `embedded` extra: a Valkey and a PostgreSQL per data directory.

The processes of the directory share them. Every process that uses a server holds a shared lock on
its `owners` file for as long as it lives. A small watcher process starts the server and waits for
the exclusive lock: it gets it when the last owner is gone, however that ended, and then stops the
server. See shares.py and watcher.py.
"""

from __future__ import annotations

from pathlib import Path

from rqueue.embedded import postgres, shares, valkey
from rqueue.embedded.shares import Kind
from rqueue.embedded.valkey import binary

__all__ = ["binary", "has_postgres", "start", "start_postgres", "stop", "stop_postgres"]


def start(data_dir: str | Path) -> str:
    """The URL of the directory's Valkey, which is started if it does not run yet.

    Blocks until it answers. It runs until every process that called this has ended, or has
    called `stop` as often.
    """
    folder = Path(data_dir).absolute()

    def command(socket: str) -> list[str]:
        return valkey.command(server, folder, socket)

    server = binary()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = Kind("valkey", "valkey.sock", folder / "valkey.log", command)
    return f"unix://{shares.take_part(folder, kind)}"


def stop(data_dir: str | Path) -> None:
    """Give up this process's share; the server stops when nobody has one."""
    shares.leave(Path(data_dir).absolute())


def has_postgres() -> bool:
    """Whether the PostgreSQL of the extra is installed."""
    return postgres.installed()


def start_postgres(data_dir: str | Path) -> str:
    """The URL of the directory's PostgreSQL, which is made and started if need be; as `start`.

    It has a database `rqueue`, whose search path begins with a schema of that name.
    """
    folder = Path(data_dir).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = postgres.prepare(folder)

    def command(socket: str) -> list[str]:
        return postgres.command(own, Path(socket).parent)

    kind = Kind("postgres", postgres.SOCKET, own / "watcher.log", command)
    return postgres.url(Path(shares.take_part(own, kind)).parent)


def stop_postgres(data_dir: str | Path) -> None:
    """Give up this process's share of the PostgreSQL; it stops when nobody has one."""
    shares.leave(postgres.home(Path(data_dir).absolute()))
