"""A worker process: runs until a signal, a limit or its own end, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rqueue.clock import ended
from rqueue.process.monitor import Gauges, Monitor, Ports, ServedQueue
from rqueue.process.supervisor_pipe import DRAINED, end_process, supervisor_pipe
from rqueue.worker.threads import reset_signals_in_forks

if TYPE_CHECKING:
    from rqueue.process.scheduler import Scheduler
    from rqueue.worker.worker import Worker


LOG = logging.getLogger("rqueue.worker")
CHECK_SEC = 1.0
# A shutdown waits this long for handlers that do not stop.
STOP_SEC = 5.0
STEPS = {signal.SIGTTIN: 1, signal.SIGTTOU: -1}
MIN_SLOTS = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """When a process ends to be replaced; None for never."""

    max_tasks: int | None = None
    max_rss_mb: int | None = None


class WorkerProcess:
    """Runs the workers of one process, one for each queue, and the queues' schedulers.

    The first SIGTERM or SIGINT drains: no new claims, running tasks get the grace period, then they
    are released. The second one releases them immediately.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        schedulers: Sequence[Scheduler],
        *,
        grace_sec: float,
        gauges: Gauges,
        limits: Limits | None = None,
        ports: Ports | None = None,
    ) -> None:
        self.workers = workers
        self.schedulers = schedulers
        self.grace_sec = grace_sec
        self.limits = limits or Limits()
        self.signals = 0
        served_queues = [
            ServedQueue(worker.parts.settings.name, worker.shard, worker, scheduler)
            for worker, scheduler in zip_longest(workers, schedulers)
        ]
        supervisor = supervisor_pipe(self.orphaned, self.request_resize)
        self.monitor = Monitor(
            served_queues, ports or Ports(), gauges=gauges, supervisor=supervisor
        )

    async def run(self) -> None:
        """Runs until it has drained or stopped."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.on_signal)
        stop = asyncio.Event()
        background = [loop.create_task(self.watch_limits())]
        background += [loop.create_task(scheduler.run(stop)) for scheduler in self.schedulers]
        working: list[asyncio.Task[None]] = []
        try:
            async with self.monitor:
                self.log("worker started", slots=self.slots)
                working += [loop.create_task(worker.run()) for worker in self.workers]
                await self.until_ended(working)
                if all(worker.registrar.drained for worker in self.workers):
                    self.monitor.limit = DRAINED
        finally:
            stop.set()
            background[0].cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await ended(working)
            self.log("worker stopped", tasks=self.finished)

    async def until_ended(self, working: Sequence[asyncio.Task[None]]) -> None:
        """Returns when all workers have ended. If one raises, the others are stopped and release
        their tasks without spending an attempt.
        """
        over, others = await asyncio.wait(working, return_when=asyncio.FIRST_EXCEPTION)
        if others:
            for worker in self.workers:
                worker.stop()
            await asyncio.wait(others, timeout=STOP_SEC)
        for task in over:
            task.result()

    @property
    def finished(self) -> int:
        """How many tasks have ended here."""
        return sum(worker.pace.finished for worker in self.workers)

    def on_signal(self) -> None:
        """Handles a signal: the first drains, the second stops."""
        self.signals += 1
        if self.signals == 1:
            self.drain()
        else:
            self.stop()

    def drain(self) -> None:
        """Stops claiming; tasks that still run after the grace period are released."""
        running = sum(len(worker.slots.running) for worker in self.workers)
        self.log("worker draining", running=running, grace_sec=self.grace_sec)
        for worker in self.workers:
            worker.drain()
        asyncio.get_running_loop().call_later(self.grace_sec, self.stop)

    def stop(self) -> None:
        """Releases running tasks; handlers that do not stop do not keep the process alive."""
        for worker in self.workers:
            worker.stop()
        asyncio.get_running_loop().call_later(STOP_SEC, exit_now, 1)

    def step(self, by: int) -> None:
        """Changes the number of slots."""
        self.resize(self.slots + by)

    def request_resize(self, slots: int) -> None:
        """Calls `resize` from the thread that reads from the supervisor."""
        if self.monitor.main is not None:
            with suppress(RuntimeError):
                self.monitor.main.call_soon_threadsafe(self.resize, slots)

    def resize(self, slots: int) -> None:
        """Sets the number of slots, at least one; running tasks beyond it may end."""
        slots = max(slots, MIN_SLOTS)
        if slots == self.slots:
            return
        # The queues share their slots: one worker resizes them, the others may claim for them.
        self.workers[0].resize(slots)
        for worker in self.workers[1:]:
            worker.wake.set()
        self.log("slots changed", slots=slots)

    @property
    def slots(self) -> int:
        """How many tasks may run at the same time."""
        return self.workers[0].slots.size

    def orphaned(self) -> None:
        """Ends the process when its supervisor is gone, which would have stopped or replaced it."""
        if not self.draining:
            end_process()

    @property
    def draining(self) -> bool:
        """Whether no worker claims any more."""
        return all(worker.draining for worker in self.workers)

    def log(self, event: str, **fields: object) -> None:
        """Logs an event of this process."""
        LOG.info(event, extra={"worker": self.workers[0].name, **fields})

    async def watch_limits(self) -> None:
        """Drains when a limit is reached."""
        while True:
            await asyncio.sleep(CHECK_SEC)
            reached = self.reached()
            if reached and not self.draining:
                self.log("limit reached", limit=reached, tasks=self.finished, mb=resident_mb())
                self.monitor.limit = reached
                self.drain()

    def reached(self) -> str:
        """The option of the reached limit; empty if none is reached."""
        limits = self.limits
        if limits.max_tasks is not None and self.finished >= limits.max_tasks:
            return f"--max-tasks {limits.max_tasks}"
        if limits.max_rss_mb is not None and resident_mb() > limits.max_rss_mb:
            return f"--max-rss {limits.max_rss_mb}"
        return ""


def exit_now(code: int) -> None:
    """Ends this process even if threads still run; flushes output and logs."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def resident_mb() -> int:
    """The resident memory of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def on_steps(take: Callable[[int], object]) -> None:
    """Calls `take` with 1 or -1 for each SIGTTIN or SIGTTOU, but not for those sent to forks; only
    in the main thread.
    """
    reset_signals_in_forks()
    loop = asyncio.get_running_loop()
    for number, step in STEPS.items():
        loop.add_signal_handler(number, take, step)
