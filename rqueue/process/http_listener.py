"""A minimal HTTP listener for GET requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from rqueue.errors import ConfigError

LOCAL = "127.0.0.1"
MAX_HEAD_BYTES = 8192
# A client that does not send its request or read the answer within this time is disconnected.
CLIENT_SEC = 5.0
MOST_CLIENTS = 32


class Address(NamedTuple):
    """The address to listen on; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Page:
    """A response."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"


Routes = Mapping[str, Callable[[], Awaitable[Page]]]


class Listener:
    """Serves some paths on one address, on the event loop that starts it."""

    def __init__(self, address: Address, routes: Routes) -> None:
        self.address = address
        self.routes = routes
        self.server: asyncio.Server | None = None
        self.clients: set[asyncio.Task[None]] = set()

    async def start(self) -> Address:
        """Starts to listen and returns the address with its port; raises ConfigError if it is in
        use.
        """
        host, port = self.address
        try:
            self.server = await asyncio.start_server(
                self.serve, host, port, limit=MAX_HEAD_BYTES, backlog=MOST_CLIENTS
            )
        except OSError as error:
            raise ConfigError(str(self.address), f"cannot be listened on: {error}") from error
        return Address(host, self.server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        """Stops listening; running requests are cut off."""
        if self.server is not None:
            self.server.close()
        for client in self.clients:
            client.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one request."""
        client = asyncio.current_task()
        assert client is not None
        try:
            if len(self.clients) < MOST_CLIENTS:
                self.clients.add(client)
                async with asyncio.timeout(CLIENT_SEC):
                    await self.respond(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The client is slow or gone, or the listener is closing.
            pass
        finally:
            self.clients.discard(client)
            writer.transport.abort()

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads the request and writes the response."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            page = Page(b"too large\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            method = "GET"
        else:
            method, _, rest = head.decode("latin-1").partition(" ")
            page = await self.page(method, rest.partition(" ")[0].partition("?")[0])
        answer = (
            f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
            f"Content-Type: {page.kind}\r\nContent-Length: {len(page.body)}\r\n"
            "Connection: close\r\n\r\n"
        ).encode()
        writer.write(answer if method == "HEAD" else answer + page.body)
        await writer.drain()
        writer.write_eof()
        with suppress(asyncio.IncompleteReadError):
            # Waits until the client has closed the connection; an abort would discard unread data.
            await reader.readexactly(1)

    async def page(self, method: str, path: str) -> Page:
        """The response to a request."""
        if path not in self.routes:
            return Page(b"not found\n", HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return Page(b"only GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
        return await self.routes[path]()
