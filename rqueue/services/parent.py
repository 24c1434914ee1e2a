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
PUSH_SEC = 1.0
CLOSE_SEC = 1.0


class Parent:
    """The child's end of the line. The parent says a word a line, `figures` once if it wants them
    from now on; the child answers with JSON, a word and what belongs to it.

    `orphaned` is called, in the thread that listens, when the parent is gone.
    """

    def __init__(self, end: socket.socket, orphaned: Callable[[], object]) -> None:
        self.end = end
        self.orphaned = orphaned
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.pushing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Takes up the line on the event loop that runs."""
        self.reader, self.writer = await asyncio.open_connection(sock=self.end)

    async def listen(self, watch: Watch) -> None:
        """Does what the parent says, until it is gone."""
        assert self.reader is not None
        with suppress(OSError):
            while word := await self.reader.readline():
                await self.answer(word.decode().strip(), watch)
        self.orphaned()

    async def answer(self, word: str, watch: Watch) -> None:
        """One word of the parent."""
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
        """Tells what was counted by now, if that is wanted."""
        if self.pushing is not None:
            self.say("figures", counted)

    def say(self, word: str, value: object) -> None:
        """Tells the parent, unless that does not listen."""
        assert self.writer is not None
        if self.writer.transport.get_write_buffer_size() == 0:
            self.writer.write(json.dumps([word, value]).encode() + b"\n")

    async def aclose(self) -> None:
        """Hangs up when the last words are through."""
        assert self.writer is not None
        if self.pushing is not None:
            self.pushing.cancel()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SEC):
                await self.writer.drain()
                self.writer.close()
                await self.writer.wait_closed()


def parent_of(orphaned: Callable[[], object]) -> Parent | None:
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
    return Parent(end, orphaned)


def end_process() -> None:
    """Ends this process as a signal would: in good order."""
    os.kill(os.getpid(), signal.SIGTERM)
