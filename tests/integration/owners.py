"""Other processes that use the embedded servers of a directory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

OWNER = """
import sys
from rqueue import embedded
print(getattr(embedded, sys.argv[1])(sys.argv[2]), flush=True)
sys.stdin.read()
"""


class Owner:
    """Another process that uses the server of a directory."""

    def __init__(self, folder: Path, start: str = "start", before: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", OWNER, start, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def url(self) -> str:
        """The URL of the server, once it answers."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        """Ends normally."""
        self.process.communicate()

    def kill(self) -> None:
        """Ends with SIGKILL."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def owner(folder: Path, start: str = "start", before: Sequence[str] = ()) -> Iterator[Owner]:
    """An owner that is killed at the end of the block if it still runs."""
    one = Owner(folder, start, before)
    try:
        yield one
    finally:
        one.kill()


def wait_until(true: Callable[[], bool], *, seconds: float = 60) -> None:
    """Waits until a condition is true; fails if it is not in time."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
