"""Several worker processes as one: started, watched, started anew when they die, ended together."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Sequence

LOG = logging.getLogger("rqueue.worker")
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.5, 30.0
# One that lived so long did not die of its own start.
HEALTHY_SEC = 10.0


class Processes:
    """Keeps `count` processes of one command running until it is told to stop."""

    def __init__(self, command: Sequence[str], count: int) -> None:
        self.command = command
        self.count = count
        self.running: dict[int, asyncio.subprocess.Process] = {}
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Returns when all have ended after a stop. Signals are handed on as they come."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        await asyncio.gather(*(self.keep(place) for place in range(self.count)))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Hands a signal on to all, and starts no more."""
        self.stopping.set()
        for process in self.running.values():
            if process.returncode is None:
                process.send_signal(number)

    async def keep(self, place: int) -> None:
        """One place: a process, and another when it has ended."""
        pause = FIRST_PAUSE_SEC
        while not self.stopping.is_set():
            began = time.monotonic()
            # A group of its own: a terminal's Ctrl-C reaches it through us alone, and once.
            process = await asyncio.create_subprocess_exec(*self.command, start_new_session=True)
            self.running[place] = process
            code = await process.wait()
            if self.stopping.is_set():
                return
            if code != 0:
                healthy = time.monotonic() - began > HEALTHY_SEC
                pause = FIRST_PAUSE_SEC if healthy else min(2 * pause, LONGEST_PAUSE_SEC)
                LOG.warning("process %d ended with %d; another in %g s", process.pid, code, pause)
                await self.rest(pause)

    async def rest(self, seconds: float) -> None:
        """A pause that a stop ends."""
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return
