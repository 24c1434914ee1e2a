"""Sharing of a server between processes: ownership, start and socket path."""

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
# Systems allow 104 to 108 bytes, including the terminating zero.
LONGEST_SOCKET_PATH = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server: its name for the watcher, its socket, log and command line."""

    name: str
    socket: str
    log: Path
    command: Callable[[str], list[str]]

    def answers(self, socket: str) -> bool:
        """Whether it listens and has read its data."""
        return watcher.KINDS[self.name].answers(socket)


@dataclass(slots=True)
class Share:
    """This process's share of a server: the open lock, and the number of its users."""

    fd: int
    socket: str
    users: int


shares: dict[Path, Share] = {}
# Referenced so that a watcher that ends first causes no ResourceWarning.
watchers: list[subprocess.Popen[bytes]] = []
guard = threading.Lock()


def acquire(folder: Path, kind: Kind) -> str:
    """Takes a share of the folder's server, and starts it if necessary; returns its socket."""
    with guard:
        share = shares.get(folder)
        if share is not None and kind.answers(share.socket):
            share.users += 1
            return share.socket
        users = 0
        if share is not None:
            # The server died: release the share and open a new one.
            users = share.users
            os.close(shares.pop(folder).fd)
        shares[folder] = share = open_share(folder, kind)
        share.users = users + 1
        return share.socket


def release(folder: Path) -> None:
    """Releases one share of this process."""
    with guard:
        share = shares.get(folder)
        if share is None:
            return
        share.users -= 1
        if share.users == 0:
            # Only closed, not unlocked: a forked child may share the lock.
            os.close(shares.pop(folder).fd)


def open_share(folder: Path, kind: Kind) -> Share:
    """Takes the owner's lock, and makes sure that the server is watched and answers."""
    until = time.monotonic() + START_SEC
    with (folder / "start.lock").open("a") as lock:
        lock_file(lock.fileno(), fcntl.LOCK_EX, until)
        owners = os.open(folder / watcher.OWNERS, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Waits while a watcher stops the server of former owners.
            lock_file(owners, fcntl.LOCK_SH, until)
            socket = socket_path(folder, kind.socket)
            if not (kind.answers(socket) and watched(folder)):
                watch(folder, kind, socket, until)
        except BaseException:
            # Also on KeyboardInterrupt: an open lock would keep the server running.
            os.close(owners)
            raise
    return Share(fd=owners, socket=socket, users=0)


def lock_file(fd: int, kind: int, until: float) -> None:
    """Takes the lock; raises StoreUnavailable after the timeout."""
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
    """The path of the socket: in the folder if the path is short enough, else the one that the
    folder's file `socket` contains.
    """
    path = folder / name
    # A comma separates host names in a PostgreSQL URL.
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
    """Whether a watcher is running, which holds its lock while it runs."""
    with (folder / watcher.WATCHER).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def watch(folder: Path, kind: Kind, socket: str, until: float) -> None:
    """Waits until a watcher has started the server or adopted a running one; starts a watcher if
    there is none.
    """
    process = None
    while not (kind.answers(socket) and watched(folder)):
        if process is None and not watched(folder):
            process = new_watcher(folder, kind, socket)
        gone = process is not None and process.poll() is not None
        if gone or time.monotonic() >= until:
            raise StoreUnavailable(f"the embedded server did not start, see {kind.log}")
        time.sleep(PAUSE_SEC)


def new_watcher(folder: Path, kind: Kind, socket: str) -> subprocess.Popen[bytes]:
    """Starts a watcher that outlives this process."""
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
