"""A proxy between client and server that loses chosen replies: the server has executed the command,
the client does not know it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import hiredis

from rqueue.store.connection import BLOCK_SEC, BLOCKING_POOL_SIZE, POOL_SIZE, Connection
from rqueue.store.pool import open_clients
from rqueue.store.url import parse
from tests.harness import Harness, build
from tests.servers import Server

Words = list[bytes]
How = Literal["close", "hang"]
CHUNK = 65_536
# A call whose reply hangs is sent again after this time, for as long as a busy machine may need.
REPLY_SEC = 0.8
TIMEOUT_SEC = 60.0


@dataclass(slots=True)
class Loss:
    """Which replies are lost, and how: connection closed, or silence."""

    fits: Callable[[Words], bool]
    how: How
    left: int = 1


@dataclass(slots=True, eq=False)
class Line:
    """The connection of one client: pending commands, and the parser of replies."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    under_way: list[Words] = field(default_factory=list)
    commands: hiredis.Reader = field(default_factory=hiredis.Reader)
    replies: hiredis.Reader = field(default_factory=hiredis.Reader)
    silent: bool = False


class Proxy:
    """Forwards everything except for the replies that it must lose."""

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
        """Loses the replies to the next matching commands."""
        self.loss = Loss(fits, how, times)
        self.lost = 0

    def cut(self, fits: Callable[[Words], bool]) -> int:
        """Closes every connection with a matching pending command. Returns their number."""
        found = [line for line in self.lines if any(map(fits, line.under_way))]
        for line in found:
            close(line)
        return len(found)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client."""
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
        """From client to server."""
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
        """From server to client."""
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
        """The loss that applies to one of these replies, counted."""
        loss = self.loss
        if loss is None or loss.left == 0 or not any(map(loss.fits, answered)):
            return None
        loss.left -= 1
        self.lost += 1
        return loss

    async def until(self, fits: Callable[[Words], bool]) -> None:
        """Waits until a matching command is pending."""
        while not any(fits(words) for line in self.lines for words in line.under_way):
            self.noticed.clear()
            await self.noticed.wait()


def close(line: Line) -> None:
    """Closes both sides of a connection."""
    line.client.close()
    line.server.close()


def values(reader: hiredis.Reader) -> Iterator[object]:
    """The complete replies of a parser, errors included."""
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


def connection_to(proxy: Proxy) -> Connection:
    """A connection that soon gives up a reply, and late the call."""
    opener = partial(
        open_clients,
        parse(proxy.url),
        reply_sec=REPLY_SEC,
        wait_sec=TIMEOUT_SEC,
        block_sec=BLOCK_SEC,
        sizes=(POOL_SIZE, BLOCKING_POOL_SIZE),
    )
    return Connection(proxy.url, opener, timeout_sec=TIMEOUT_SEC)


@asynccontextmanager
async def proxied_harness(server: Server) -> AsyncIterator[tuple[Harness, Proxy]]:
    """A harness that is connected through a proxy; its library is loaded."""
    async with proxy_to(server.url) as proxy:
        client, connection = server.client(), connection_to(proxy)
        harness = build(connection, client, call_timeout_sec=TIMEOUT_SEC)
        await client.function_load(
            harness.queue._internals.shard.runner.library.source, replace=True
        )
        yield harness, proxy
        await harness.queue.aclose()
        await client.aclose()
