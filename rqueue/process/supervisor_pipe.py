"""A subprocess's connection to its supervisor: sends metrics, and ends when the
supervisor is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqueue.metrics.figures import packed

if TYPE_CHECKING:
    from rqueue.process.monitor import Monitor

# The environment variable with the file descriptor of the subprocess's end.
VARIABLE = "RQUEUE_PARENT_FD"
# The limit reported by a worker that an operator has drained: it is not replaced.
DRAINED = "drained"
PUSH_SEC = 1.0
CLOSE_SEC = 1.0
UP_INTERVAL_SEC = 0.1


class SupervisorPipe:
    """The subprocess's end of the connection. The supervisor sends one word per line: `figures` to
    receive metrics from now on, and `slots N` to set the number of slots. The subprocess answers
    with JSON: a word and its value. On its own it sends `open` first, `up` when Redis has answered,
    and `limit` last.

    Both callbacks run in the listening thread: `orphaned` when the supervisor is gone, `resize`
    with the number of slots.
    """

    def __init__(
        self, end: socket.socket, orphaned: Callable[[], object], resize: Callable[[int], object]
    ) -> None:
        self.end = end
        self.orphaned = orphaned
        self.resize = resize
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.pushing: asyncio.Task[None] | None = None
        self.reporting_up: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Opens the connection on the running event loop."""
        self.reader, self.writer = await asyncio.open_connection(sock=self.end)
        self.send("open", True)

    async def listen(self, monitor: Monitor | None = None) -> None:
        """Handles the supervisor's words until it is gone; without a monitor there are no
        answers.
        """
        assert self.reader is not None
        if monitor is not None:
            self.reporting_up = asyncio.create_task(self.report_up(monitor))
        with suppress(OSError):
            while word := await self.reader.readline():
                await self.answer(word.decode().strip(), monitor)
        self.orphaned()

    async def report_up(self, monitor: Monitor) -> None:
        """Sends `up` when Redis has answered a worker of this process."""
        # Polled, since the worker runs in another thread and has no reference to its supervisor.
        while not any(  # noqa: ASYNC110
            one.worker is not None and one.worker.answered for one in monitor.served_queues
        ):
            await asyncio.sleep(UP_INTERVAL_SEC)
        self.send("up", True)

    async def answer(self, word: str, monitor: Monitor | None) -> None:
        """Handles one word."""
        match word.split():
            case ["slots", number]:
                self.resize(int(number))
            case [word] if monitor is not None:
                await self.reply(word, monitor)

    async def reply(self, word: str, monitor: Monitor) -> None:
        """Answers a request."""
        match word:
            case "figures":
                monitor.measure()
                self.pushing = asyncio.create_task(self.push_loop(monitor))
            case "queues":
                self.send(word, packed((await monitor.queue_figures()).cells))
            case "health":
                self.send(word, await monitor.health())

    async def push_loop(self, monitor: Monitor) -> None:
        """Sends the metrics periodically, so that little is lost if the process is killed."""
        while True:
            self.push(monitor.counted())
            await asyncio.sleep(PUSH_SEC)

    def push(self, counted: dict[str, Any]) -> None:
        """Sends the metrics, unless the supervisor has not read the previous ones."""
        assert self.writer is not None
        if self.writer.transport.get_write_buffer_size() == 0:
            self.send("figures", counted)

    def send(self, word: str, value: object) -> None:
        """Sends a word and its value. Answers are never skipped, since requests are not
        repeated.
        """
        assert self.writer is not None
        self.writer.write(json.dumps([word, value]).encode() + b"\n")

    def send_final(self, counted: dict[str, Any], limit: str) -> None:
        """Sends the reached limit, if any, and the metrics, if they are wanted."""
        self.send("limit", limit)
        if self.pushing is not None:
            self.send("figures", counted)

    async def aclose(self) -> None:
        """Closes the connection after everything is sent."""
        assert self.writer is not None
        for task in (self.pushing, self.reporting_up):
            if task is not None:
                task.cancel()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SEC):
                await self.writer.drain()
                self.writer.close()
                await self.writer.wait_closed()


def supervisor_pipe(
    orphaned: Callable[[], object], resize: Callable[[int], object]
) -> SupervisorPipe | None:
    """The connection to the supervisor, if this process was started by one."""
    found = os.environ.pop(VARIABLE, "")
    if not found.isdigit():
        return None
    try:
        end = socket.socket(fileno=int(found))
    except OSError:
        return None
    # Not inherited by processes that handlers start: the connection must close with this process.
    end.set_inheritable(False)
    return SupervisorPipe(end, orphaned, resize)


def end_process() -> None:
    """Ends this process as a SIGTERM would."""
    os.kill(os.getpid(), signal.SIGTERM)
