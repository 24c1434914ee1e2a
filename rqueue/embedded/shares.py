"""Processes that share a server: who owns it, who starts it, and where it listens."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rqueue.embedded import watcher
from rqueue.errors import StoreUnavailable

START_SEC = 60.0
PAUSE_SEC = 0.02
# The system allows 104 to 108 bytes, with the closing zero.
LONGEST_SOCKET_PATH = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """What one server has of its own: a name to the watcher, a socket, a log, and its start."""

    name: str
    socket: str
    log: Path
    command: Callable[[str], list[str]]

    def answers(self, socket: str) -> bool:
        """Whether it listens and has read its data."""
        return watcher.KINDS[self.name].answers(socket)


@dataclass(slots=True)
class Share:
    """This process's part in a server: an open lock, and how many asked for it."""

    fd: int
    socket: str
    users: int


shares: dict[Path, Share] = {}
# Kept so that a watcher which ends before us is not reported as forgotten.
watchers: list[subprocess.Popen[bytes]] = []
guard = threading.Lock()


def take_part(folder: Path, kind: Kind) -> str:
    """The socket of the folder's server, which is started if it does not run yet."""
    with guard:
        share = shares.get(folder)
        if share is not None and kind.answers(share.socket):
            share.users += 1
            return share.socket
        users = 0
        if share is not None:
            # The server died under us: leave, and come in again.
            users = share.users
            os.close(shares.pop(folder).fd)
        shares[folder] = share = enter(folder, kind)
        share.users = users + 1
        return share.socket


def leave(folder: Path) -> None:
    """Give up one share of this process."""
    with guard:
        share = shares.get(folder)
        if share is None:
            return
        share.users -= 1
        if share.users == 0:
            # Closing is enough, and unlocking would be too much: a forked child may share it.
            os.close(shares.pop(folder).fd)


def enter(folder: Path, kind: Kind) -> Share:
    """Become an owner, and see to it that a watched server answers."""
    until = time.monotonic() + START_SEC
    with (folder / "start.lock").open("a") as turn:
        take(turn.fileno(), fcntl.LOCK_EX, until)
        owners = os.open(folder / watcher.OWNERS, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Waits here while a watcher stops the server of owners that have gone.
            take(owners, fcntl.LOCK_SH, until)
            socket = socket_path(folder, kind.socket)
            if not (kind.answers(socket) and watched(folder)):
                watch(folder, kind, socket, until)
        except BaseException:
            # Ctrl-C too: an open lock would keep the server of others running.
            os.close(owners)
            raise
    return Share(fd=owners, socket=socket, users=0)


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


def socket_path(folder: Path, name: str) -> str:
    """Where the server listens: in the directory, or where `socket` says if that will not do."""
    path = folder / name
    # A comma would end the name of a host in the URL of a PostgreSQL.
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH and "," not in str(path):
        return str(path)
    record = folder / "socket"
    if record.exists():
        path = Path(record.read_text().strip())
        if path.parent.is_dir() and path.parent.stat().st_uid == os.getuid():
            return str(path)
    path = Path(tempfile.mkdtemp(prefix="rqueue-")) / name
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


def watch(folder: Path, kind: Kind, socket: str, until: float) -> None:
    """See to it that a watcher starts the server, or adopts one that lost its own."""
    process = None
    while not (kind.answers(socket) and watched(folder)):
        if process is None and not watched(folder):
            process = new_watcher(folder, kind, socket)
        gone = process is not None and process.poll() is not None
        if gone or time.monotonic() >= until:
            raise StoreUnavailable(f"the embedded server did not start, see {kind.log}")
        time.sleep(PAUSE_SEC)


def new_watcher(folder: Path, kind: Kind, socket: str) -> subprocess.Popen[bytes]:
    """A watcher, which outlives us."""
    words = [watcher.__file__, kind.name, str(folder), socket, *kind.command(socket)]
    with (folder / "watcher.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    watchers.append(process)
    return process
