"""A child's way to the process that started it: tells its figures, ends when that is gone."""

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
    from rqueue.services.watching import Watch

# The descriptor of the child's end, told by whoever starts it.
VARIABLE = "RQUEUE_PARENT_FD"
# The last word of one that an operator has told to end: no other takes its place.
DRAINED = "drained"
PUSH_SEC = 1.0
CLOSE_SEC = 1.0
RISE_SEC = 0.1


class Parent:
    """The child's end of the line. The parent says a word a line, `figures` once if it wants them
    from now on, and `slots N` when there are to be so many; the child answers with JSON, a word and
    what belongs to it. Unasked it says `open` at first, `up` when the server has taken it in, and
    `limit` as its last word.

    Both are called in the thread that listens: `orphaned` when the parent is gone, `resize` with
    the number of slots.
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
        self.rising: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Takes up the line on the event loop that runs."""
        self.reader, self.writer = await asyncio.open_connection(sock=self.end)
        self.say("open", True)

    async def listen(self, watch: Watch | None = None) -> None:
        """Does what the parent says, until it is gone; without a watch there are no answers."""
        assert self.reader is not None
        if watch is not None:
            self.rising = asyncio.create_task(self.rise(watch))
        with suppress(OSError):
            while word := await self.reader.readline():
                await self.answer(word.decode().strip(), watch)
        self.orphaned()

    async def rise(self, watch: Watch) -> None:
        """Says once that a worker of this process has been answered by its server."""
        # Looked at: the worker is of another thread and knows nothing of a parent.
        while not any(one.worker is not None and one.worker.heard for one in watch.watched):  # noqa: ASYNC110
            await asyncio.sleep(RISE_SEC)
        self.say("up", True)

    async def answer(self, word: str, watch: Watch | None) -> None:
        """One word of the parent."""
        match word.split():
            case ["slots", number]:
                self.resize(int(number))
            case [word] if watch is not None:
                await self.tell(word, watch)

    async def tell(self, word: str, watch: Watch) -> None:
        """What the parent asked for."""
        match word:
            case "figures":
                watch.measure()
                self.pushing = asyncio.create_task(self.push_on(watch))
            case "queues":
                self.say(word, packed((await watch.depth()).cells))
            case "health":
                self.say(word, await watch.health())

    async def push_on(self, watch: Watch) -> None:
        """Tells the figures again and again, so that little is lost with a child that is killed."""
        while True:
            self.push(watch.counted())
            await asyncio.sleep(PUSH_SEC)

    def push(self, counted: dict[str, Any]) -> None:
        """Tells what was counted by now, unless the parent has not taken what was told before."""
        assert self.writer is not None
        if self.writer.transport.get_write_buffer_size() == 0:
            self.say("figures", counted)

    def say(self, word: str, value: object) -> None:
        """Tells the parent. Answers are never left out: who waits for one does not ask again."""
        assert self.writer is not None
        self.writer.write(json.dumps([word, value]).encode() + b"\n")

    def part(self, counted: dict[str, Any], limit: str) -> None:
        """Says the last words: which limit was reached, if one was, and the figures, if wanted."""
        self.say("limit", limit)
        if self.pushing is not None:
            self.say("figures", counted)

    async def aclose(self) -> None:
        """Hangs up when the last words are through."""
        assert self.writer is not None
        for task in (self.pushing, self.rising):
            if task is not None:
                task.cancel()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SEC):
                await self.writer.drain()
                self.writer.close()
                await self.writer.wait_closed()


def parent_of(orphaned: Callable[[], object], resize: Callable[[int], object]) -> Parent | None:
    """The way to the process that started this one, if it left one."""
    found = os.environ.pop(VARIABLE, "")
    if not found.isdigit():
        return None
    try:
        end = socket.socket(fileno=int(found))
    except OSError:
        return None
    # Not for what handlers start: the line ends with this process.
    end.set_inheritable(False)
    return Parent(end, orphaned, resize)


def end_process() -> None:
    """Ends this process as a signal would: in good order."""
    os.kill(os.getpid(), signal.SIGTERM)
