"""A worker on duty: it works until a signal, a limit or its own end, and leaves in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rqueue.services.gathering import Watched
from rqueue.services.parent import DRAINED, end_process, parent_of
from rqueue.services.resizing import FEWEST
from rqueue.services.stopping import ended
from rqueue.services.watching import Ports, Watch

if TYPE_CHECKING:
    from rqueue.services.scheduler import Scheduler
    from rqueue.services.worker import Worker

LOG = logging.getLogger("rqueue.worker")
LOOK_SEC = 1.0
# Handlers that do not end when they are told to are left behind after this.
FAREWELL_SEC = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a process makes room for a fresh one; None for never."""

    max_tasks: int | None = None
    max_rss_mb: int | None = None


class Duty:
    """Runs the workers of one process, one for each queue, and beside them candidates for the
    leadership of the queues' services.

    The first SIGTERM or SIGINT drains: no new claims, what runs may end within the grace, the rest
    is given back. A second one gives back at once.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        schedulers: Sequence[Scheduler],
        *,
        grace_sec: float,
        limits: Limits | None = None,
        ports: Ports | None = None,
    ) -> None:
        self.workers = workers
        self.schedulers = schedulers
        self.grace_sec = grace_sec
        self.limits = limits or Limits()
        self.asked = 0
        watched = [
            Watched(worker.parts.settings.name, worker.shard, worker, scheduler)
            for worker, scheduler in zip_longest(workers, schedulers)
        ]
        self.watch = Watch(watched, ports or Ports(), parent_of(self.orphaned, self.told))

    async def run(self) -> None:
        """Works until it has been asked to stop and is done."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.ask)
        stop = asyncio.Event()
        beside = [loop.create_task(self.look())]
        beside += [loop.create_task(scheduler.run(stop)) for scheduler in self.schedulers]
        working: list[asyncio.Task[None]] = []
        try:
            async with self.watch:
                self.say("worker started", slots=self.slots)
                working += [loop.create_task(worker.run()) for worker in self.workers]
                await self.together(working)
                if all(worker.registering.sent_home for worker in self.workers):
                    self.watch.limit = DRAINED
        finally:
            stop.set()
            beside[0].cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await ended(working)
            self.say("worker stopped", tasks=self.finished)

    async def together(self, working: Sequence[asyncio.Task[None]]) -> None:
        """Returns when all workers have ended. One that broke ends the others, which give back at
        once what they have, no attempt spent.
        """
        over, others = await asyncio.wait(working, return_when=asyncio.FIRST_EXCEPTION)
        if others:
            for worker in self.workers:
                worker.stop()
            await asyncio.wait(others, timeout=FAREWELL_SEC)
        for task in over:
            task.result()

    @property
    def finished(self) -> int:
        """Tasks that have ended here."""
        return sum(worker.pace.finished for worker in self.workers)

    def ask(self) -> None:
        """A signal: the first drains, the second stops."""
        self.asked += 1
        if self.asked == 1:
            self.drain()
        else:
            self.stop()

    def drain(self) -> None:
        """Claims nothing more; what still runs after the grace is given back."""
        running = sum(len(worker.slots.running) for worker in self.workers)
        self.say("worker draining", running=running, grace_sec=self.grace_sec)
        for worker in self.workers:
            worker.drain()
        asyncio.get_running_loop().call_later(self.grace_sec, self.stop)

    def stop(self) -> None:
        """Gives back what runs; handlers that will not end do not keep the process."""
        for worker in self.workers:
            worker.stop()
        asyncio.get_running_loop().call_later(FAREWELL_SEC, exit_now, 1)

    def step(self, by: int) -> None:
        """Runs so many tasks more at once from now on."""
        self.resize(self.slots + by)

    def told(self, slots: int) -> None:
        """`resize`, from the thread that hears the parent."""
        if self.watch.main is not None:
            with suppress(RuntimeError):
                self.watch.main.call_soon_threadsafe(self.resize, slots)

    def resize(self, slots: int) -> None:
        """Runs so many tasks at once from now on, one at least; what runs beyond it may end."""
        slots = max(slots, FEWEST)
        if slots == self.slots:
            return
        # The queues share their seats: one changes them, the others may claim for them.
        self.workers[0].resize(slots)
        for worker in self.workers[1:]:
            worker.wake.set()
        self.say("slots changed", slots=slots)

    @property
    def slots(self) -> int:
        """How many tasks may run at once."""
        return self.workers[0].slots.size

    def orphaned(self) -> None:
        """The process that started this one is gone: nobody would stop or replace it."""
        if not self.draining:
            end_process()

    @property
    def draining(self) -> bool:
        """Whether it claims no more."""
        return all(worker.draining for worker in self.workers)

    def say(self, event: str, **fields: object) -> None:
        """A line about this worker."""
        LOG.info(event, extra={"worker": self.workers[0].name, **fields})

    async def look(self) -> None:
        """Drains when a limit is reached."""
        while True:
            await asyncio.sleep(LOOK_SEC)
            reached = self.reached()
            if reached and not self.draining:
                self.say("limit reached", limit=reached, tasks=self.finished, mb=resident_mb())
                self.watch.limit = reached
                self.drain()

    def reached(self) -> str:
        """The limit that is reached, as it was asked for, if one is."""
        limits = self.limits
        if limits.max_tasks is not None and self.finished >= limits.max_tasks:
            return f"--max-tasks {limits.max_tasks}"
        if limits.max_rss_mb is not None and resident_mb() > limits.max_rss_mb:
            return f"--max-rss {limits.max_rss_mb}"
        return ""


def exit_now(code: int) -> None:
    """Ends this process whatever still runs in it; what was printed and logged is not lost."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def resident_mb() -> int:
    """The memory this process has in use now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
