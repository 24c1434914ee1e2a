"""Several worker processes as one: started, watched, started anew when they die, ended together,
and asked in one place.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Sequence
from typing import Any

from rqueue.metrics.figures import Figures, lasting, unpacked
from rqueue.services.offspring import Offspring, start
from rqueue.services.watching import Ports, Source, listen

LOG = logging.getLogger("rqueue.worker")
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.5, 30.0
# One that lived so long did not die of its own start.
HEALTHY_SEC = 10.0


class Processes(Source):
    """Keeps `count` processes of one command running until it is told to stop."""

    def __init__(self, command: Sequence[str], count: int, ports: Ports | None = None) -> None:
        self.command = command
        self.count = count
        self.ports = ports or Ports()
        self.running: dict[int, Offspring] = {}
        # What those that are gone have counted: no counter goes back when a process ends.
        self.departed = Figures()
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Returns when all have ended after a stop. Signals are handed on as they come."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        listeners = await listen(self.ports, self)
        try:
            await asyncio.gather(*(self.keep(place) for place in range(self.count)))
        finally:
            await asyncio.gather(*(listener.aclose() for listener in listeners))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Hands a signal on to all, and starts no more."""
        self.stopping.set()
        for one in self.running.values():
            one.send_signal(number)

    async def keep(self, place: int) -> None:
        """One place: a process, and another when it has ended."""
        pause = FIRST_PAUSE_SEC
        while not self.stopping.is_set():
            began = time.monotonic()
            code = await self.one(place)
            if self.stopping.is_set():
                return
            self.departed.count("rqueue_process_restarts_total", "ended" if code == 0 else "died")
            if code == 0:
                LOG.info("process replaced", extra={"place": place})
                continue
            healthy = time.monotonic() - began > HEALTHY_SEC
            pause = FIRST_PAUSE_SEC if healthy else min(2 * pause, LONGEST_PAUSE_SEC)
            LOG.warning(
                "process died", extra={"place": place, "code": code, "another_in_sec": pause}
            )
            await self.rest(pause)

    async def one(self, place: int) -> int:
        """One process from its start to its end; its exit code."""
        one = self.running[place] = await start(self.command)
        if self.ports.metrics is not None:
            one.say("figures")
        code = await one.ended()
        # In one step, so that no scrape finds it in neither or in both.
        del self.running[place]
        self.departed.add(lasting(one.figures))
        return code

    async def rest(self, seconds: float) -> None:
        """A pause that a stop ends."""
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return

    async def figures(self) -> Figures:
        """The sums of all, those that are gone included."""
        queues = await self.ask_any("queues")
        figures = Figures()
        figures.add(self.departed.cells)
        for one in self.running.values():
            figures.add(one.figures)
        figures.add(unpacked(queues or {}))
        figures.put("rqueue_processes", value=len(self.running))
        return figures

    async def ask_any(self, word: str) -> Any:
        """The first answer that a process gives; None where none does."""
        for one in list(self.running.values()):
            answer = await one.ask(word)
            if answer is not None:
                return answer
        return None

    async def health(self) -> dict[str, Any]:
        """Alive unless one of them is stuck; ready as soon as one of them is."""
        running = list(self.running.values())
        answers = await asyncio.gather(*(one.ask("health") for one in running))
        found = [answer for answer in answers if answer is not None]
        return {
            "alive": all(answer["alive"] for answer in found),
            "ready": not self.stopping.is_set() and any(answer["ready"] for answer in found),
            "processes": found,
            "silent": len(running) - len(found),
        }
