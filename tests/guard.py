"""A guard process that ends the processes of a killed test run.

A run that is killed stops nothing itself, nor does a worker of xdist. So each of them has a guard:
a process that reads process ids from a pipe, and ends those that still run when the pipe closes. It
runs as a file, without importing the tests, so that it starts quickly.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO, TypeVar

Process = TypeVar("Process", bound="subprocess.Popen[Any]")


def guarded(process: Process, how: signal.Signals = signal.SIGKILL) -> Process:
    """Registers a process, which gets this signal when the present one has ended. Returns it."""
    # Without pidfd_open the guard might end another process with a reused id.
    if sys.platform == "linux":
        pipe = guard().stdin
        assert pipe is not None
        pipe.write(b"%d %d\n" % (process.pid, how))
    return process


@cache
def guard() -> subprocess.Popen[bytes]:
    """The guard of this process, started at its first use."""
    # In a session of its own, so that signals to the terminal do not reach it.
    command = [sys.executable, "-I", __file__]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)
    atexit.register(started.communicate)
    return started


def watch(lines: BinaryIO) -> None:
    """Ends the registered processes that still run once the pipe is closed."""
    opened: list[tuple[int, signal.Signals]] = []
    for line in lines:
        opened = [(one, how) for one, how in opened if runs(one)]
        pid, how = map(int, line.split())
        with suppress(ProcessLookupError):
            opened.append((os.pidfd_open(pid), signal.Signals(how)))
    for one, how in opened:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(one, how)
            signal.pidfd_send_signal(one, signal.SIGCONT)


def runs(opened: int) -> bool:
    """Whether a process still runs; closes the descriptor of one that does not."""
    if select.select([opened], [], [], 0)[0]:
        os.close(opened)
        return False
    return True


if __name__ == "__main__":
    watch(sys.stdin.buffer)
