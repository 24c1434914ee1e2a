"""The supervisor: starts several worker processes, restarts and ends them, and serves their metrics
and health in one place.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rqueue.clock import ended, paused
from rqueue.metrics.figures import Cells, Figures, lasting, unpacked
from rqueue.process.monitor import ANSWER_SEC, STUCK_SEC, Ports, Source, listen
from rqueue.process.supervisor_pipe import DRAINED, VARIABLE, SupervisorPipe, supervisor_pipe
from rqueue.process.worker_process import MIN_SLOTS, on_steps

LOG = logging.getLogger("rqueue.worker")
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.5, 30.0
# A process that ran this long did not fail at its start.
HEALTHY_SEC = 10.0
# The exit code for wrong settings or a wrong application: a restart would fail again.
CANNOT_BE_SET_UP = 5
# Reached quickly with fast tasks, so it does not count as a failed start.
MAX_TASKS = "--max-tasks"
MAX_LINE_BYTES, CHUNK_BYTES = 16 * 1024 * 1024, 1 << 16
# The last messages of an ended process are available within this time.
LAST_OUTPUT_SEC = 2.0


class Supervisor(Source):
    """Keeps `count` processes of one command running until it is stopped, each with `slots` slots.
    A process that an operator has drained is not replaced. With a `name`, each process gets it with
    a number. If a process cannot be set up and none has ever been up, all are ended and `refused`
    is its exit code.
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
        self.any_was_up = False
        self.count = count
        self.ports = ports or Ports()
        self.slots = slots
        self.warned = False
        self.running: dict[int, Subprocess] = {}
        # Counters of ended processes, so that no sum decreases.
        self.ended_figures = Figures()
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Returns when all processes have ended after a stop. Signals are passed on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        on_steps(self.step)
        listeners = await listen(self.ports, self)
        following = asyncio.create_task(follow_supervisor(supervisor_pipe(self.stop, self.resize)))
        try:
            await asyncio.gather(*(self.keep(place) for place in range(self.count)))
        finally:
            await ended([following])
            await asyncio.gather(*(listener.aclose() for listener in listeners))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Passes a signal on and starts no more processes."""
        self.stopping.set()
        for one in self.running.values():
            one.send_signal(number)

    def step(self, by: int) -> None:
        """Changes the slots of each process."""
        self.resize(self.slots + by)

    def resize(self, slots: int) -> None:
        """Sets the slots of each process, also of those started later."""
        self.slots = max(slots, MIN_SLOTS)
        for one in self.running.values():
            one.resize(self.slots)

    async def keep(self, place: int) -> None:
        """Keeps one place filled: starts a process, and another one when it has ended."""
        pause = FIRST_PAUSE_SEC
        while not self.stopping.is_set():
            began = time.monotonic()
            one, code = await self.one(place)
            if code == CANNOT_BE_SET_UP and one.refused and not self.ever_up:
                self.refused = code
                self.stop()
            if self.stopping.is_set() or one.limit == DRAINED:
                return
            self.ended_figures.count(
                "rqueue_process_restarts_total", "ended" if code == 0 else "died"
            )
            healthy = time.monotonic() - began > HEALTHY_SEC or one.limit.startswith(MAX_TASKS)
            pause = FIRST_PAUSE_SEC if healthy else min(2 * pause, LONGEST_PAUSE_SEC)
            # A regular end after a healthy time: replaced without a pause.
            wait_sec = 0.0 if code == 0 and healthy else pause
            facts = {"place": place, "code": code, "another_in_sec": wait_sec}
            if code:
                LOG.warning("process died", extra=facts)
            else:
                LOG.info("process replaced", extra=facts)
            if not healthy:
                self.warn_limit(one.limit)
            await paused(self.stopping, wait_sec)

    async def one(self, place: int) -> tuple[Subprocess, int]:
        """Runs one process to its end and returns its exit code."""
        own = ["--name", f"{self.name}-{place + 1}"] if self.name else []
        one = self.running[place] = await start([*self.command, *own])
        if self.stopping.is_set():
            # The signal came during the start.
            one.send_signal(signal.SIGTERM)
        one.resize(self.slots)
        if self.ports.metrics is not None:
            one.send("figures")
        code = await one.ended()
        # Without an await between, so that each scrape counts it exactly once.
        del self.running[place]
        self.any_was_up = self.any_was_up or one.up
        self.ended_figures.add(lasting(one.figures))
        return one, code

    @property
    def ever_up(self) -> bool:
        """Whether any process has ever been up. If so, a failing start may be temporary and is
        repeated.
        """
        return self.any_was_up or any(one.up for one in self.running.values())

    def warn_limit(self, limit: str) -> None:
        """Warns once that a limit ends processes right after their start."""
        if limit and not self.warned:
            self.warned = True
            LOG.warning("%s is reached right after the start of a process", limit)

    async def figures(self) -> Figures:
        """The sums over all processes, including ended ones."""
        queues = await self.request_any("queues")
        figures = Figures()
        figures.add(self.ended_figures.cells)
        for one in self.running.values():
            figures.add(one.figures)
        figures.add(unpacked(queues or {}))
        figures.put("rqueue_processes", value=len(self.running))
        return figures

    async def request_any(self, word: str) -> Any:
        """The first answer of a process; None if none answers."""
        for one in list(self.running.values()):
            answer = await one.request(word)
            if answer is not None:
                return answer
        return None

    async def health(self) -> dict[str, Any]:
        """Alive unless a process is stuck or has not answered for as long; ready if one
        of them is.
        """
        running = list(self.running.values())
        answers = await asyncio.gather(*(one.request("health") for one in running))
        found = [answer for answer in answers if answer is not None]
        return {
            "alive": all(answer["alive"] for answer in found)
            and all(one.silent_sec < STUCK_SEC for one in running),
            "ready": not self.stopping.is_set() and any(answer["ready"] for answer in found),
            "processes": found,
            "silent": len(running) - len(found),
        }


async def follow_supervisor(supervisor: SupervisorPipe | None) -> None:
    """Follows the supervisor of this process, if there is one."""
    if supervisor is not None:
        await supervisor.open()
        try:
            await supervisor.listen()
        finally:
            await supervisor.aclose()


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a process, and when it was sent."""

    answer: asyncio.Future[Any]
    since: float


class Subprocess:
    """The supervisor's end of the connection; the other end is `SupervisorPipe`."""

    def __init__(self, process: asyncio.subprocess.Process, end: socket.socket) -> None:
        self.process = process
        self.end = end
        self.figures: Cells = {}
        self.limit = ""
        self.opened = self.up = self.final_received = False
        self.requests: dict[str, Request] = {}
        self.listening = asyncio.create_task(self.listen())

    async def listen(self) -> None:
        """Handles the messages of the process until it is gone."""
        with suppress(OSError, ValueError):
            async for line in lines_of(self.end):
                word, value = json.loads(line)
                if word == "figures":
                    self.figures = unpacked(value)
                elif word == "limit":
                    self.limit, self.final_received = value, True
                elif word == "open":
                    self.opened = True
                elif word == "up":
                    self.up = True
                elif word in self.requests:
                    self.requests.pop(word).answer.set_result(value)

    def send(self, word: str) -> None:
        """Sends a word to the process, unless that has ended."""
        with suppress(OSError):
            self.end.send(word.encode() + b"\n")

    def resize(self, slots: int) -> None:
        """Sets the slots of the process; it may have just been started."""
        self.send(f"slots {slots}")

    async def request(self, word: str) -> Any:
        """The answer of the process; None if it does not answer in time. Concurrent callers share
        one request.
        """
        if self.listening.done():
            return None
        if word not in self.requests:
            future = asyncio.get_running_loop().create_future()
            self.requests[word] = Request(future, time.monotonic())
            self.send(word)
        answer = self.requests[word].answer
        await asyncio.wait([answer, self.listening], timeout=2 * ANSWER_SEC,
                           return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        return answer.result() if answer.done() else None

    @property
    def refused(self) -> bool:
        """Whether it ended regularly before it was up. A process that never opened the connection
        sent nothing.
        """
        return not self.up and (self.final_received or not self.opened)

    @property
    def silent_sec(self) -> float:
        """For how long it has owed an answer; 0 if it owes none."""
        now = time.monotonic()
        return max((now - request.since for request in self.requests.values()), default=0.0)

    def send_signal(self, number: int) -> None:
        """Sends a signal if the process still runs."""
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def ended(self) -> int:
        """Waits for the end of the process and its last messages; returns its exit code."""
        code = await self.process.wait()
        await asyncio.wait([self.listening], timeout=LAST_OUTPUT_SEC)
        self.listening.cancel()
        await asyncio.wait([self.listening])
        self.end.close()
        return code


async def lines_of(end: socket.socket) -> AsyncIterator[bytes]:
    """The lines of a socket until its other end is closed. Raises ValueError for one too long.

    Read from the socket itself, which keeps what an ended process has sent. A stream would drop
    it at an error of a write, or of a read before the next line is taken.
    """
    loop, rest = asyncio.get_running_loop(), b""
    while data := await loop.sock_recv(end, CHUNK_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError("the line is too long")


async def start(command: Sequence[str]) -> Subprocess:
    """Starts a process with a connection to it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        with theirs:
            # A separate session: Ctrl-C reaches the process only through the supervisor, and once.
            process = await asyncio.create_subprocess_exec(
                *command,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, VARIABLE: str(theirs.fileno())},
            )
    except BaseException:
        ours.close()
        raise
    return Subprocess(process, ours)
