"""Worker processes for the fault tests, the event log of their handlers, and the checks after each
test.

The event log is a file outside of Redis with a line for each event, so that it survives the death
of a process. All its times are from one clock.
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
from rqueue.maintenance.reaper import reap_sec
from tests.guard import guarded
from tests.harness import Harness

LEASE_SEC = 2.0
# A lost task must run again within this time.
RECOVERY_SEC = LEASE_SEC + reap_sec(LEASE_SEC) + 1.0
POLL_SEC = 0.02
# Less than the timeout of a test, so that the failure is reported.
TIMEOUT_SEC = 120.0
# Settings of the processes, and of the test's own queue.
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
class Event:
    """One event: time, kind, task, token and process."""

    at: float
    word: str
    task: str
    token: str
    pid: int


@dataclass(frozen=True, slots=True)
class EventLog:
    """The events that handlers have logged."""

    path: Path

    def lines(self, word: str, task: str | None = None) -> list[Event]:
        """The events of one kind, of one task or of all, in order."""
        if not self.path.exists():
            return []
        rows = [row.split() for row in self.path.read_text("ascii").splitlines()]
        found = [Event(float(at), kind, id, token, int(pid)) for at, kind, id, token, pid in rows]
        return [line for line in found if line.word == word and task in (None, line.task)]

    async def until(self, word: str, task: str | None = None, *, count: int = 1) -> Event:
        """Waits for a number of events of a kind. Returns the last of them."""

        async def so_many() -> bool:
            return len(self.lines(word, task)) >= count

        await until(so_many)
        return self.lines(word, task)[count - 1]


@dataclass(slots=True)
class Fleet:
    """Processes with one server, in a folder of their own."""

    url: str
    folder: Path
    processes: list[Process] = field(default_factory=list)

    @property
    def events(self) -> EventLog:
        return EventLog(self.folder / "events")

    def worker(self, *options: str, url: str | None = None) -> Process:
        """Starts `rqueue worker` with the handlers of application.py."""
        chosen = ("worker", "application:queue", "--concurrency", "4", *options)
        return self.start("-m", "rqueue", *chosen, url=url)

    def start(self, *words: str, url: str | None = None) -> Process:
        """Starts Python with these arguments; its output goes to a file."""
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
        """Opens the gate of a process."""
        (self.folder / f"gate-{pid}").touch()

    def close(self) -> None:
        """Kills all processes, also stopped ones."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@dataclass(frozen=True, slots=True)
class Env:
    """A queue and the processes that work on it."""

    harness: Harness
    fleet: Fleet

    @property
    def events(self) -> EventLog:
        return self.fleet.events

    async def holder(self, task: str, *, count: int = 1) -> Process:
        """The process that began a task the `count`th time."""
        pid = (await self.events.until("begin", task, count=count)).pid
        return next(process for process in self.fleet.processes if process.pid == pid)

    async def up(self, count: int) -> None:
        """Waits until that many workers have called the server."""

        async def so_many() -> bool:
            return bool(await self.harness.client.zcard(self.harness.keys.workers()) >= count)

        await until(so_many)

    async def counted(self, enough: Callable[[Counts], bool]) -> None:
        """Waits until the counts of the queue satisfy a condition."""

        async def so() -> bool:
            return enough(await self.harness.queue.counts())

        await until(so)

    async def ended(self, completed: Iterable[str], dead: Iterable[str] = ()) -> None:
        """Waits until no live task is left. Checks that exactly these tasks have ended, once each
        and in these states, that no lease is left, and that nothing was repaired.
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
        """The time of the server."""
        seconds, micros = await self.harness.client.time()
        return float(seconds + micros / 1_000_000)

    async def reclaimed(self) -> dict[str, float]:
        """When each lost task was reclaimed, by the time of the server."""
        rows = await self.harness.client.xrange(self.harness.keys.events())
        return {
            fields[b"task"].decode(): int(entry.split(b"-")[0]) / 1000
            for entry, fields in rows
            if fields[b"event"] == b"task.retrying"
        }

    def once_a_lease(self) -> None:
        """Checks that no handler began twice under one token."""
        begun = Counter((line.task, line.token) for line in self.events.lines("begin"))
        assert not [lease for lease, times in begun.items() if times > 1]


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Waits until a condition is true; it is polled slowly to leave the CPU to the processes."""
    async with asyncio.timeout(TIMEOUT_SEC):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(POLL_SEC)


def now() -> float:
    """The time by the clock of the event log."""
    return monotonic()


def freeze(process: Process) -> None:
    process.send_signal(signal.SIGSTOP)


def thaw(process: Process) -> None:
    process.send_signal(signal.SIGCONT)
