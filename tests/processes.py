"""Processes that end with the test that started them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.guard import guarded

Process = subprocess.Popen[bytes]


@contextmanager
def killed(process: Process) -> Iterator[Process]:
    """A process, killed at the end of the block if it still runs."""
    try:
        yield guarded(process)
    finally:
        process.kill()
        process.wait()
