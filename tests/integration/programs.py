"""`rqueue` in real processes, observed through their logs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.guard import guarded
from tests.queue.until import until


class Program:
    """An `rqueue` process and its log."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The log lines of an event, or all; other lines are tracebacks."""
        text = self.log.read_text().splitlines()
        found = [json.loads(line) for line in text if line.startswith("{")]
        return [line for line in found if event in ("", line["event"])]

    async def wait_for(self, event: str, times: int = 1) -> list[dict[str, Any]]:
        """Waits for a number of log lines of an event. Returns them."""

        async def so_many() -> bool:
            await asyncio.sleep(0.05)
            return len(self.lines(event)) >= times

        await until(so_many)
        return self.lines(event)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def program(url: str, folder: Path, *words: str) -> Iterator[Program]:
    """A program in a folder; it is killed at the end of the block if it still runs."""
    log, out = folder / "log", folder / "out"
    with log.open("w") as err, out.open("w") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "rqueue", *words],
            cwd=folder,
            env={**os.environ, "RQUEUE_REDIS_URL": url, "PYTHONUNBUFFERED": ""},
            stdout=stdout,
            stderr=err,
            text=True,
        )
    guarded(process)
    try:
        yield Program(process, log)
    finally:
        process.kill()
        process.wait()
