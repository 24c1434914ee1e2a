"""The process that ends what a killed test run has started.

A run that is killed stops nothing itself; nor does a worker of xdist. So each of them has a
guard: a process that reads the ids of what is started from a pipe, and ends what still runs when
the pipe closes. Run as a file, without the rest of the tests, so that it starts quickly.
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
    """The process, which is sent this signal when this one has ended, however it ended."""
    # Without pidfd_open the guard might end another process that was given the number since.
    if sys.platform == "linux":
        pipe = guard().stdin
        assert pipe is not None
        pipe.write(b"%d %d\n" % (process.pid, how))
    return process


@cache
def guard() -> subprocess.Popen[bytes]:
    """The guard of this process, which starts with the first use."""
    # In a session of its own: a signal to a whole terminal is not for it.
    command = [sys.executable, "-I", __file__]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)
    atexit.register(started.communicate)
    return started


def watch(lines: BinaryIO) -> None:
    """End what still runs of the processes that the lines name, once no more lines can come."""
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
    """Whether a process still runs; what is known of one that does not is closed."""
    if select.select([opened], [], [], 0)[0]:
        os.close(opened)
        return False
    return True


if __name__ == "__main__":
    watch(sys.stdin.buffer)
