"""Worker processes for the fault tests, the book their handlers write, and what any run must leave.

The book is a file outside of Redis: a line an event, appended whole, so that what a process has
written survives its death. Its times and the tests' are of one clock.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from rqueue import State
from rqueue.core.counts import Counts
from rqueue.process.service import reap_sec
from tests.guard import guarded
from tests.harness import Harness

LEASE_SEC = 2.0
# Within this time the task of a worker that is lost must run again.
RECOVERY_SEC = LEASE_SEC + reap_sec(LEASE_SEC) + 1.0
LOOK_SEC = 0.02
# Less than a test's own timeout, which leaves no time to look at what was wrong.
PATIENCE_SEC = 120.0
# What the processes are set to, and the test's own queue beside them.
SETTINGS: dict[str, Any] = {
    "lease_sec": LEASE_SEC,
    "archive": "postgres",
    "retry": {"strategy": "immediate"},
}
VARIABLES = {
    "RQUEUE_LEASE_SEC": str(LEASE_SEC),
    "RQUEUE_ARCHIVE": "postgres",
    "RQUEUE_RETRY": '{"strategy": "immediate"}',
}
APP = Path(__file__).with_name("application.py")

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Line:
    """One event: when, what, of which task under which token, in which process."""

    at: float
    word: str
    task: str
    token: str
    pid: int


@dataclass(frozen=True, slots=True)
class Book:
    """What handlers have written."""

    path: Path

    def lines(self, word: str, task: str | None = None) -> list[Line]:
        """The events of one kind, of one task or of all, in order."""
        if not self.path.exists():
            return []
        rows = [row.split() for row in self.path.read_text("ascii").splitlines()]
        found = [Line(float(at), kind, id, token, int(pid)) for at, kind, id, token, pid in rows]
        return [line for line in found if line.word == word and task in (None, line.task)]

    async def until(self, word: str, task: str | None = None, *, count: int = 1) -> Line:
        """The event that makes so many of its kind, when it is there."""

        async def so_many() -> bool:
            return len(self.lines(word, task)) >= count

        await until(so_many)
        return self.lines(word, task)[count - 1]


@dataclass(slots=True)
class Fleet:
    """Processes over one server, in a folder of their own."""

    url: str
    folder: Path
    processes: list[Process] = field(default_factory=list)

    @property
    def book(self) -> Book:
        return Book(self.folder / "book")

    def worker(self, *options: str, url: str | None = None) -> Process:
        """`rqueue worker` with the handlers of application.py."""
        chosen = ("worker", "application:queue", "--concurrency", "4", *options)
        return self.start("-m", "rqueue", *chosen, url=url)

    def start(self, *words: str, url: str | None = None) -> Process:
        """Python with these words; what it says goes to a file."""
        env = {**os.environ, **VARIABLES, "RQUEUE_REDIS_URL": url or self.url}
        env["PYTHONPATH"] = os.pathsep.join([str(APP.parent), *sys.path])
        with (self.folder / f"log-{len(self.processes)}").open("wb") as log:
            process = guarded(
                subprocess.Popen(
                    [sys.executable, *words], cwd=self.folder, env=env, stdout=log, stderr=log
                )
            )
        self.processes.append(process)
        return process

    def open_gate(self, pid: int) -> None:
        """Lets the handlers go on that wait in a process."""
        (self.folder / f"gate-{pid}").touch()

    def close(self) -> None:
        """Ends all that still run, stopped ones too."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@dataclass(frozen=True, slots=True)
class Site:
    """A queue, and the processes that work on it."""

    harness: Harness
    fleet: Fleet

    @property
    def book(self) -> Book:
        return self.fleet.book

    async def holder(self, task: str, *, count: int = 1) -> Process:
        """The process in which a task has begun, at its `count`th beginning."""
        pid = (await self.book.until("begin", task, count=count)).pid
        return next(process for process in self.fleet.processes if process.pid == pid)

    async def up(self, count: int) -> None:
        """Returns when so many workers have spoken to the server."""

        async def so_many() -> bool:
            return bool(await self.harness.client.zcard(self.harness.keys.workers()) >= count)

        await until(so_many)

    async def counted(self, enough: Callable[[Counts], bool]) -> None:
        """Returns when the queue's counts are so."""

        async def so() -> bool:
            return enough(await self.harness.queue.counts())

        await until(so)

    async def ended(self, completed: Iterable[str], dead: Iterable[str] = ()) -> None:
        """Returns when all is done, if these and only these have ended, each once and so, and
        nothing is left in any hand, nor was anything to be repaired.
        """
        harness, completed, dead = self.harness, list(completed), list(dead)
        await self.counted(lambda counts: not counts.live)
        rows = await harness.client.xrange(harness.keys.outbox())
        ended = Counter(task.decode() for _, fields in rows for task in fields)
        assert ended == Counter([*completed, *dead])
        counts = await harness.queue.counts()
        assert counts[State.COMPLETED] == len(completed)
        assert counts[State.DEAD_LETTERED] == len(dead)
        assert await harness.client.xlen(harness.keys.ready()) == 0
        assert await harness.client.hget(harness.keys.stats(), "repaired") is None

    async def server_sec(self) -> float:
        """The server's time."""
        seconds, micros = await self.harness.client.time()
        return float(seconds + micros / 1_000_000)

    async def reclaimed(self) -> dict[str, float]:
        """When each lost task was taken from its worker, by the server's time."""
        rows = await self.harness.client.xrange(self.harness.keys.events())
        return {
            fields[b"task"].decode(): int(entry.split(b"-")[0]) / 1000
            for entry, fields in rows
            if fields[b"event"] == b"task.retrying"
        }

    def once_a_lease(self) -> None:
        """No handler began twice under one token."""
        begun = Counter((line.task, line.token) for line in self.book.lines("begin"))
        assert not [lease for lease, times in begun.items() if times > 1]


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Returns when it is true; looked at now and then, so that the processes get the machine."""
    async with asyncio.timeout(PATIENCE_SEC):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SEC)


def now() -> float:
    """The time by the clock of the book."""
    return monotonic()


def freeze(process: Process) -> None:
    process.send_signal(signal.SIGSTOP)


def thaw(process: Process) -> None:
    process.send_signal(signal.SIGCONT)
