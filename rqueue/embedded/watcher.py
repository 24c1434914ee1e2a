"""The process that starts an embedded server and stops it after its last owner.

Run as a file, without the rest of the package, so that it stays small: standard library only.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

OWNERS = "owners"
WATCHER = "watcher.lock"
CHECK_SEC = 0.2
STOP_SEC = 30.0
# From the kernel's prctl.h.
SET_CHILD_SUBREAPER = 36


def main(kind: str, folder: Path, path: str, command: list[str]) -> None:
    """Starts one server and stops it after its last owner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    server = KINDS[kind]
    inherit_orphans()
    with (folder / WATCHER).open("a") as life, (folder / OWNERS).open("a") as owners:
        # An earlier watcher whose server died may be about to exit.
        fcntl.flock(life, fcntl.LOCK_EX)
        life.truncate(0)
        life.write(f"{os.getpid()}\n")
        life.flush()
        process = None if server.answers(path) else launch(folder, path, command)
        pid = process.pid if process else server.process_id(path)
        tries = 1
        while not has_no_owner(owners.fileno()):
            if is_running(process, pid):
                tries = 1 if tries > 1 and server.answers(path) else tries
            elif tries < server.tries:
                tries += 1
                process = launch(folder, path, command)
                pid = process.pid
            else:
                break
            time.sleep(CHECK_SEC)
        stop_server(process, pid, server.stop)
        remove_socket(folder, path)
        if not server.keeps:
            shutil.rmtree(folder, ignore_errors=True)


def launch(folder: Path, path: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Starts the server after removing what a killed one has left."""
    end_orphans()
    Path(path).unlink(missing_ok=True)
    for left in (Path(f"{path}.lock"), folder / "data" / "postmaster.pid"):
        if is_stale(left):
            left.unlink()
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, env=environment())


def inherit_orphans() -> None:
    """Adopts the subprocesses of a killed server, if the system supports it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kills the subprocesses of a killed PostgreSQL: they hold memory that the next one needs.

    The server itself is gone, so every subprocess of this process was one of its own.
    """
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
            os.waitpid(int(pid), 0)


def is_stale(left: Path) -> bool:
    """Whether PostgreSQL would mistake another process for a running server: one with a reused pid.

    PostgreSQL detects a stale pid only if no process has it; after the restart of a container
    another process often does.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = left.read_text().splitlines()
        running = Path(f"/proc/{int(lines[0])}/cmdline").read_bytes()
        return os.fsencode(lines[1]) not in running
    return False


def environment() -> dict[str, str]:
    """The environment without the PG* variables, which are meant for another PostgreSQL."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def is_running(process: subprocess.Popen[bytes] | None, pid: int) -> bool:
    """Whether the server is running; an adopted one is not a subprocess of this process."""
    if process is not None:
        return process.poll() is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_no_owner(owners: int) -> bool:
    """Whether no owner is left. If so, takes the lock: new owners wait until this process exits."""
    try:
        fcntl.flock(owners, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def stop_server(process: subprocess.Popen[bytes] | None, pid: int, stop: signal.Signals) -> None:
    """Stops the server gracefully; kills it after a timeout."""
    until = time.monotonic() + STOP_SEC
    if not is_running(process, pid):
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, stop)
        while is_running(process, pid):
            if time.monotonic() >= until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(CHECK_SEC / 10)


def remove_socket(folder: Path, path: str) -> None:
    """Removes the socket, and its directory if it was created for it."""
    Path(path).unlink(missing_ok=True)
    if Path(path).parent != folder:
        (folder / "socket").unlink(missing_ok=True)
        shutil.rmtree(Path(path).parent, ignore_errors=True)


def answers(path: str) -> bool:
    """Whether a server listens on the socket and has read its data."""
    return reply_to(path, b"PING\r\n").startswith(b"+PONG")


def process_id(path: str) -> int:
    """The pid of the server, from INFO."""
    found = re.search(rb"process_id:(\d+)", reply_to(path, b"INFO server\r\n"))
    if found is None:
        sys.exit("the server does not report its process id")
    return int(found[1])


def reply_to(path: str, command: bytes) -> bytes:
    """The first part of the server's reply; empty after an error."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(2)
        try:
            line.connect(path)
            line.sendall(command)
            return line.recv(65536)
        except OSError:
            return b""


def accepts(path: str) -> bool:
    """Whether a PostgreSQL listens on the socket and has recovered."""
    words = b"user\0rqueue\0database\0rqueue\0\0"
    answer = reply_to(path, struct.pack("!ii", 8 + len(words), 3 << 16) + words)
    # An error other than "starting up" comes from a server that is ready.
    return answer.startswith((b"R", b"E")) and b"C57P03\0" not in answer


def postmaster_id(path: str) -> int:
    """The pid of a PostgreSQL, from the lock file of its socket."""
    return int(Path(f"{path}.lock").read_text().splitlines()[0])


class Kind(NamedTuple):
    """A kind of server: how to check that it answers, how to find its pid, which signal stops it,
    how many starts are tried, and whether its directory is kept.
    """

    answers: Callable[[str], bool]
    process_id: Callable[[str], int]
    stop: signal.Signals
    tries: int
    keeps: bool = True


TEMPORARY = "temporary"
KINDS = {
    "valkey": Kind(answers, process_id, signal.SIGTERM, tries=1),
    TEMPORARY: Kind(answers, process_id, signal.SIGTERM, tries=1, keeps=False),
    # After SIGTERM it would wait for its clients. Several starts are tried: subprocesses of a
    # killed, adopted server may hold its memory until they have finished.
    "postgres": Kind(accepts, postmaster_id, signal.SIGINT, tries=25),
}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
