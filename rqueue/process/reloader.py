"""Restarts a process when its code changes, for development."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rqueue.clock import paused
from rqueue.process.supervisor import Subprocess, start
from rqueue.process.worker_process import MIN_SLOTS, on_steps

LOG = logging.getLogger("rqueue.reload")
CHECK_SEC = 0.5
# Folders without application code, and often very large.
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
Stamps = dict[str, tuple[int, int]]


class Reloader:
    """Keeps one process of a command running and restarts it when a Python file in its folders
    changes. A process that ended by itself is restarted at the next change.
    """

    def __init__(self, command: Sequence[str], folders: Iterable[Path], *, slots: int = 10) -> None:
        self.command = command
        self.folders = list(folders)
        self.slots = slots
        self.process: Subprocess | None = None
        self.stopping = asyncio.Event()
        self.stamps: Stamps = {}

    async def run(self) -> None:
        """Returns after a signal, when the process has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        on_steps(self.step)
        self.stamps = await asyncio.to_thread(stamps_in, self.folders)
        while not self.stopping.is_set():
            self.process = await start(self.command)
            self.process.resize(self.slots)
            ended = asyncio.create_task(self.process.ended())
            await self.changed_or_stopped(ended)
            self.process.send_signal(signal.SIGTERM)
            await ended

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Passes a signal on and restarts no more."""
        self.stopping.set()
        if self.process is not None:
            self.process.send_signal(number)

    def step(self, by: int) -> None:
        """Changes the slots of the process and of the following ones."""
        self.slots = max(self.slots + by, MIN_SLOTS)
        if self.process is not None:
            self.process.resize(self.slots)

    async def changed_or_stopped(self, ended: asyncio.Task[int]) -> None:
        """Waits for a change that compiles, or a signal."""
        warned = False
        while not self.stopping.is_set():
            if ended.done() and not warned:
                warned = True
                LOG.warning("process ended, waiting for a change", extra={"code": ended.result()})
            await paused(self.stopping, CHECK_SEC)
            changed = await self.changed()
            if changed and runs(changed):
                LOG.info("reloading", extra={"changed": ", ".join(changed)})
                return

    async def changed(self) -> list[str]:
        """The files that were changed, added or removed since the last call."""
        before, self.stamps = self.stamps, await asyncio.to_thread(stamps_in, self.folders)
        paths = sorted({*before, *self.stamps})
        return [path for path in paths if before.get(path) != self.stamps.get(path)]


def runs(paths: Iterable[str]) -> bool:
    """Whether these files compile; logs the one that does not."""
    for path in paths:
        try:
            source = Path(path).read_bytes()
        except OSError:
            continue
        try:
            compile(source, path, "exec", dont_inherit=True)
        except Exception as error:
            # Any error, also from a source that is too large: the running code continues.
            line = error.lineno if isinstance(error, SyntaxError) else 0
            facts = {"file": path, "line": line, "error": type(error).__name__}
            LOG.warning("syntax error, waiting for the next change", extra=facts)
            return False
    return True


def stamps_in(folders: Iterable[Path]) -> Stamps:
    """The Python files below some folders with their modification time and size."""
    found: Stamps = {}
    for folder in folders:
        for path in python_files(str(folder)):
            try:
                facts = os.stat(path)
            except OSError:
                continue
            found[path] = (facts.st_mtime_ns, facts.st_size)
    return found


def python_files(folder: str) -> Iterator[str]:
    """The Python files below a folder, without hidden and third-party folders."""
    for where, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in SKIPPED and not name.startswith(".")]
        yield from (os.path.join(where, name) for name in files if name.endswith(".py"))


def folders_of(module: str) -> list[Path]:
    """The working directory, and the folder of a module's package if that is elsewhere."""
    here = Path.cwd()
    found = importlib.util.find_spec(module.partition(".")[0])
    places = (found.submodule_search_locations if found else None) or ()
    return [here, *(Path(place) for place in places if not Path(place).is_relative_to(here))]
