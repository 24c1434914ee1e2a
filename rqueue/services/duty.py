"""A worker on duty: it works until a signal, a limit or its own end, and leaves in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """Runs a worker and, beside it, a candidate for the scheduler's leadership.

    The first SIGTERM or SIGINT drains: no new claims, what runs may end within the grace, the rest
    is given back. A second one gives back at once.
    """

    def __init__(
        self,
        worker: Worker,
        scheduler: Scheduler | None,
        *,
        grace_sec: float,
        limits: Limits | None = None,
    ) -> None:
        self.worker = worker
        self.scheduler = scheduler
        self.grace_sec = grace_sec
        self.limits = limits or Limits()
        self.asked = 0

    async def run(self) -> None:
        """Works until it has been asked to stop and is done."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.ask)
        stop = asyncio.Event()
        beside = [loop.create_task(self.look())]
        if self.scheduler is not None:
            beside.append(loop.create_task(self.scheduler.run(stop)))
        try:
            await self.worker.run()
        finally:
            stop.set()
            beside[0].cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def ask(self) -> None:
        """A signal: the first drains, the second stops."""
        self.asked += 1
        if self.asked == 1:
            self.drain()
        else:
            self.stop()

    def drain(self) -> None:
        """Claims nothing more; what still runs after the grace is given back."""
        busy = len(self.worker.slots.running)
        LOG.info("draining: %d tasks may end within %g s", busy, self.grace_sec)
        self.worker.drain()
        asyncio.get_running_loop().call_later(self.grace_sec, self.stop)

    def stop(self) -> None:
        """Gives back what runs; handlers that will not end do not keep the process."""
        self.worker.stop()
        asyncio.get_running_loop().call_later(FAREWELL_SEC, os._exit, 1)

    async def look(self) -> None:
        """Drains when a limit is reached."""
        while True:
            await asyncio.sleep(LOOK_SEC)
            reached = self.reached()
            if reached and not self.worker.draining:
                LOG.info("%s: making room for a fresh process", reached)
                self.drain()

    def reached(self) -> str:
        """The limit that is reached, if one is."""
        limits = self.limits
        if limits.max_tasks is not None and self.worker.pace.finished >= limits.max_tasks:
            return f"{self.worker.pace.finished} tasks done"
        if limits.max_rss_mb is not None and resident_mb() > limits.max_rss_mb:
            return f"{resident_mb()} MB in use"
        return ""


def resident_mb() -> int:
    """The memory this process has in use now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
