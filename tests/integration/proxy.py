"""A proxy between client and server that loses chosen replies: the server has done the work, the
client cannot know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import hiredis

from rqueue.store.connection import connect
from tests.harness import Harness, build
from tests.servers import Server

Words = list[bytes]
How = Literal["close", "hang"]
CHUNK = 65_536
# Half of it is what a reply that hangs costs.
TIMEOUT_SEC = 1.6


@dataclass(slots=True)
class Loss:
    """Which reply is lost, and how: the connection closed, or silent for ever."""

    fits: Callable[[Words], bool]
    how: How
    left: int = 1


@dataclass(slots=True, eq=False)
class Line:
    """One client's connection: commands under way, and the server's answers being read."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    under_way: list[Words] = field(default_factory=list)
    commands: hiredis.Reader = field(default_factory=hiredis.Reader)
    replies: hiredis.Reader = field(default_factory=hiredis.Reader)
    silent: bool = False


class Proxy:
    """Hands everything on, but for the replies it was told to lose."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = ""
        self.loss: Loss | None = None
        self.lost = 0
        self.seen: list[Words] = []
        self.lines: set[Line] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.noticed = asyncio.Event()

    def lose(self, fits: Callable[[Words], bool], how: How, times: int = 1) -> None:
        """Loses the replies to the next commands that fit."""
        self.loss = Loss(fits, how, times)
        self.lost = 0

    def cut(self, fits: Callable[[Words], bool]) -> int:
        """Closes every line on which such a command is under way; how many there were."""
        found = [line for line in self.lines if any(map(fits, line.under_way))]
        for line in found:
            close(line)
        return len(found)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        from_server, server = await asyncio.open_unix_connection(self.path)
        line = Line(writer, server)
        self.lines.add(line)
        both = [
            asyncio.create_task(self.forward(reader, line)),
            asyncio.create_task(self.back(from_server, line)),
        ]
        self.tasks.update(both)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        close(line)
        await asyncio.gather(*both, return_exceptions=True)
        self.tasks.difference_update(both)
        self.lines.discard(line)

    async def forward(self, reader: asyncio.StreamReader, line: Line) -> None:
        """Client to server."""
        while data := await reader.read(CHUNK):
            line.commands.feed(data)
            for words in values(line.commands):
                assert isinstance(words, list)
                line.under_way.append(words)
                self.seen.append(words)
                self.noticed.set()
            line.server.write(data)
            await line.server.drain()

    async def back(self, reader: asyncio.StreamReader, line: Line) -> None:
        """Server to client."""
        while data := await reader.read(CHUNK):
            line.replies.feed(data)
            answered = [line.under_way.pop(0) for _ in values(line.replies)]
            loss = self.take_loss(answered)
            if loss is not None and loss.how == "close":
                return
            line.silent = line.silent or loss is not None
            if not line.silent:
                line.client.write(data)
                await line.client.drain()

    def take_loss(self, answered: list[Words]) -> Loss | None:
        """The loss that one of these answers is due, counted."""
        loss = self.loss
        if loss is None or loss.left == 0 or not any(map(loss.fits, answered)):
            return None
        loss.left -= 1
        self.lost += 1
        return loss

    async def until(self, fits: Callable[[Words], bool]) -> None:
        """Returns when a command that fits is under way."""
        while not any(fits(words) for line in self.lines for words in line.under_way):
            self.noticed.clear()
            await self.noticed.wait()


def close(line: Line) -> None:
    """Ends both sides of a line."""
    line.client.close()
    line.server.close()


def values(reader: hiredis.Reader) -> Iterator[object]:
    """What a reader has read whole; an error of the server's is a value too."""
    while (found := reader.gets()) is not False:
        yield found


@asynccontextmanager
async def proxy_to(url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of the server on a unix socket."""
    proxy = Proxy(url.removeprefix("unix://"))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for line in list(proxy.lines):
            close(line)
        await asyncio.gather(*proxy.tasks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def far_house(server: Server) -> AsyncIterator[tuple[Harness, Proxy]]:
    """A house that speaks to its server through a proxy; the server knows every script."""
    async with proxy_to(server.url) as proxy:
        client, connection = server.client(), connect(proxy.url, timeout_sec=TIMEOUT_SEC)
        harness = build(connection, client, call_timeout_sec=TIMEOUT_SEC)
        await client.function_load(
            harness.queue._internals.shard.runner.library.source, replace=True
        )
        yield harness, proxy
        await harness.queue.aclose()
        await client.aclose()
