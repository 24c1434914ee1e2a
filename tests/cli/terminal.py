"""Runs a command in a pseudo-terminal, types, and reads its screen."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import Process, killed

ROWS, COLUMNS = 40, 120
# Makes the terminal that of the new session, so that Ctrl-C is a signal, and becomes the command.
TAKE_OVER = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@dataclass(slots=True)
class Terminal:
    """A process, the master end of its terminal, and its output."""

    process: Process
    master: int
    slave: int
    before: list[Any]
    written: bytearray = field(default_factory=bytearray)

    def press(self, keys: bytes) -> None:
        """Types keys."""
        os.write(self.master, keys)

    async def shows(self, text: bytes) -> None:
        """Waits until the process has written this, without a timeout of its own."""
        while text not in self.written:
            self.read()
            await asyncio.sleep(0.01)

    async def end(self) -> int:
        """Waits for the end of the process and returns its exit code."""
        while self.process.poll() is None:
            self.read()
            await asyncio.sleep(0.01)
        self.read()
        return self.process.returncode

    def read(self) -> None:
        """Reads all output: a process whose terminal is full would block."""
        with suppress(BlockingIOError):
            while data := os.read(self.master, 65_536):
                self.written += data

    @property
    def clean(self) -> bool:
        """Whether modes, screen and cursor of the terminal are restored."""
        shown = self.written.count(b"\x1b[?25l") == self.written.count(b"\x1b[?25h")
        left = self.written.count(ENTER_SCREEN) == self.written.count(LEAVE_SCREEN) > 0
        return shown and left and termios.tcgetattr(self.slave) == self.before


@contextmanager
def terminal(words: Sequence[str], *, env: dict[str, str], cwd: Path) -> Iterator[Terminal]:
    """Starts a command in its own session and terminal; kills it at the end if it still runs."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.set_blocking(master, False)
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_OVER, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env={**env, "TERM": "xterm"},
        start_new_session=True,
    )
    try:
        with killed(process):
            yield Terminal(process, master, slave, before)
    finally:
        os.close(master)
        os.close(slave)
