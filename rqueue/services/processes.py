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
from rqueue.services.parent import DRAINED, Parent, parent_of
from rqueue.services.probing import STUCK_SEC
from rqueue.services.resizing import FEWEST, on_steps
from rqueue.services.stopping import ended, paused
from rqueue.services.watching import Ports, Source, listen

LOG = logging.getLogger("rqueue.worker")
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.5, 30.0
# One that lived so long did not die of its own start.
HEALTHY_SEC = 10.0
# The exit code of a command whose settings or whose application are wrong: it ends so each time.
CANNOT_BE_SET_UP = 5
# Fast tasks reach it soon.
MAX_TASKS = "--max-tasks"


class Processes(Source):
    """Keeps `count` processes of one command running until it is told to stop, each with so many
    slots as it says now; one that an operator has drained is not replaced. With a `name` each has
    one of its own, with its number behind it. One that cannot be set up ends all of them, if none
    has ever been up: `refused` is its exit code then.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        ports: Ports | None = None,
        *,
        slots: int = 10,
        name: str | None = None,
    ) -> None:
        self.command = command
        self.name = name
        self.refused = 0
        self.risen = False
        self.count = count
        self.ports = ports or Ports()
        self.slots = slots
        self.told = False
        self.running: dict[int, Offspring] = {}
        # What those that are gone have counted: no counter goes back when a process ends.
        self.departed = Figures()
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Returns when all have ended after a stop. Signals are handed on as they come."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        on_steps(self.step)
        listeners = await listen(self.ports, self)
        hearing = asyncio.create_task(hear(parent_of(self.stop, self.resize)))
        try:
            await asyncio.gather(*(self.keep(place) for place in range(self.count)))
        finally:
            await ended([hearing])
            await asyncio.gather(*(listener.aclose() for listener in listeners))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Hands a signal on to all, and starts no more."""
        self.stopping.set()
        for one in self.running.values():
            one.send_signal(number)

    def step(self, by: int) -> None:
        """Gives each process so many slots more."""
        self.resize(self.slots + by)

    def resize(self, slots: int) -> None:
        """Gives each process so many slots, those too that are started later."""
        self.slots = max(slots, FEWEST)
        for one in self.running.values():
            one.resize(self.slots)

    async def keep(self, place: int) -> None:
        """One place: a process, and another when it has ended."""
        pause = FIRST_PAUSE_SEC
        while not self.stopping.is_set():
            began = time.monotonic()
            one, code = await self.one(place)
            if code == CANNOT_BE_SET_UP and one.refused and not self.been_up:
                self.refused = code
                self.stop()
            if self.stopping.is_set() or one.limit == DRAINED:
                return
            self.departed.count("rqueue_process_restarts_total", "ended" if code == 0 else "died")
            healthy = time.monotonic() - began > HEALTHY_SEC or one.limit.startswith(MAX_TASKS)
            pause = FIRST_PAUSE_SEC if healthy else min(2 * pause, LONGEST_PAUSE_SEC)
            # In good order and after its time: its place is not left empty.
            wait_sec = 0.0 if code == 0 and healthy else pause
            facts = {"place": place, "code": code, "another_in_sec": wait_sec}
            if code:
                LOG.warning("process died", extra=facts)
            else:
                LOG.info("process replaced", extra=facts)
            if not healthy:
                self.tell(one.limit)
            await paused(self.stopping, wait_sec)

    async def one(self, place: int) -> tuple[Offspring, int]:
        """One process from its start to its end, and its exit code."""
        own = ["--name", f"{self.name}-{place + 1}"] if self.name else []
        one = self.running[place] = await start([*self.command, *own])
        if self.stopping.is_set():
            # The signal came while it was started.
            one.send_signal(signal.SIGTERM)
        one.resize(self.slots)
        if self.ports.metrics is not None:
            one.say("figures")
        code = await one.ended()
        # In one step, so that no scrape finds it in neither or in both.
        del self.running[place]
        self.risen = self.risen or one.up
        self.departed.add(lasting(one.figures))
        return one, code

    @property
    def been_up(self) -> bool:
        """Whether any has ever been up: what refuses another then may pass, and is waited out."""
        return self.risen or any(one.up for one in self.running.values())

    def tell(self, limit: str) -> None:
        """Says once that a limit ends processes as soon as they have begun."""
        if limit and not self.told:
            self.told = True
            LOG.warning("%s is below what a fresh process needs", limit)

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
        """Alive unless one of them is stuck or has not answered for as long; ready as soon as one
        of them is.
        """
        running = list(self.running.values())
        answers = await asyncio.gather(*(one.ask("health") for one in running))
        found = [answer for answer in answers if answer is not None]
        return {
            "alive": all(answer["alive"] for answer in found)
            and all(one.silent_sec < STUCK_SEC for one in running),
            "ready": not self.stopping.is_set() and any(answer["ready"] for answer in found),
            "processes": found,
            "silent": len(running) - len(found),
        }


async def hear(parent: Parent | None) -> None:
    """Does what the process says that started this one, if one did."""
    if parent is not None:
        await parent.open()
        try:
            await parent.listen()
        finally:
            await parent.aclose()
