"""The process that starts an embedded server and stops it after its last owner.

Run as a file, without the rest of the package, so that it stays small: standard library only.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

OWNERS = "owners"
WATCHER = "watcher.lock"
LOOK_SEC = 0.2
STOP_SEC = 30.0


def main(folder: Path, server: str, path: str) -> None:
    """Watch over one server, from its start to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with (folder / WATCHER).open("a") as life, (folder / OWNERS).open("a") as owners:
        # An earlier watcher whose server died may be about to leave.
        fcntl.flock(life, fcntl.LOCK_EX)
        life.truncate(0)
        life.write(f"{os.getpid()}\n")
        life.flush()
        process = None if answers(path) else launch(folder, server, path)
        pid = process.pid if process else process_id(path)
        while lives(process, pid):
            if alone(owners.fileno()):
                end(process, pid)
                break
            time.sleep(LOOK_SEC)
        tidy(folder, path)


def launch(folder: Path, server: str, path: str) -> subprocess.Popen[bytes]:
    """The server, on a socket that only this user may open."""
    Path(path).unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": path,
        "unixsocketperm": "700",
        "dir": str(folder),
        "logfile": str(folder / "valkey.log"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return subprocess.Popen([server, *words], stdin=subprocess.DEVNULL, cwd=folder)


def lives(process: subprocess.Popen[bytes] | None, pid: int) -> bool:
    """Whether the server still runs; an adopted one is not our child."""
    if process is not None:
        return process.poll() is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def alone(owners: int) -> bool:
    """Whether no owner is left. If so the lock is ours, and newcomers wait until we are gone."""
    try:
        fcntl.flock(owners, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def end(process: subprocess.Popen[bytes] | None, pid: int) -> None:
    """Ask the server to write what it has and stop; insist after a while."""
    until = time.monotonic() + STOP_SEC
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while lives(process, pid):
            if time.monotonic() >= until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_SEC / 10)


def tidy(folder: Path, path: str) -> None:
    """Remove the socket, and the directory that was made for it alone."""
    Path(path).unlink(missing_ok=True)
    if Path(path).parent != folder:
        (folder / "socket").unlink(missing_ok=True)
        shutil.rmtree(Path(path).parent, ignore_errors=True)


def answers(path: str) -> bool:
    """Whether a server listens on the socket and has read its data."""
    return ask(path, b"PING\r\n").startswith(b"+PONG")


def process_id(path: str) -> int:
    """The server's process, as it says itself."""
    found = re.search(rb"process_id:(\d+)", ask(path, b"INFO server\r\n"))
    if found is None:
        sys.exit("the server does not say which process it is")
    return int(found[1])


def ask(path: str, command: bytes) -> bytes:
    """The first part of the server's answer, or nothing."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(2)
        try:
            line.connect(path)
            line.sendall(command)
            return line.recv(65536)
        except OSError:
            return b""


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
