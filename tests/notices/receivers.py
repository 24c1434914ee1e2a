"""Real receivers of notices: a web server that misbehaves on demand, and a mail server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult

HOST = "127.0.0.1"
LAST = b"\r\n\r\n"


@dataclass(slots=True)
class Request:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Web:
    """A web server. It answers with `statuses` one after the other, and then with 200."""

    port: int = 0
    posts: list[Request] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    headers: str = ""
    body: bytes = b"ok"
    # Set to send a delayed response.
    gate: asyncio.Event | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first, *lines = (await reader.readuntil(LAST)).decode().strip().split("\r\n")
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.posts.append(Request(first.split(" ")[1], headers, body))
            self.arrived.set()
            if self.gate is not None:
                await self.gate.wait()
            status = self.statuses.pop(0) if self.statuses else 200
            head = f"HTTP/1.1 {status} x\r\nconnection: close\r\n{self.headers}\r\n"
            writer.write(head.encode() + self.body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def web(context: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[Web]:
    """A web server, over TLS with a context."""
    found = Web()
    server = await asyncio.start_server(found.answer, HOST, port, ssl=context)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        try:
            yield found
        finally:
            if found.gate is not None:
                found.gate.set()


@dataclass(slots=True)
class MailServer:
    """A mail server: the received e-mails, and its replies to the next ones."""

    port: int = 0
    emails: list[Any] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    # Its reply to each sender and to each recipient; "" accepts.
    sender: str = ""
    recipient: str = ""
    # Its reply to these recipients.
    recipients: dict[str, str] = field(default_factory=dict)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)

    async def handle_MAIL(self, *arguments: Any) -> str:
        """A sender: server, session, envelope, address and options."""
        _, _, envelope, envelope.mail_from, options = arguments
        envelope.mail_options.extend(options)
        return self.sender or "250 go on"

    async def handle_RCPT(self, *arguments: Any) -> str:
        """A recipient, with the arguments of a sender."""
        _, _, envelope, address, _ = arguments
        reply = self.recipients.get(address, self.recipient)
        if not reply:
            envelope.rcpt_tos.append(address)
        return reply or "250 go on"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.replies:
            return self.replies.pop(0)
        self.emails.append(envelope)
        return "250 taken"

    def authenticate(self, *arguments: Any) -> AuthResult:
        """A login: server, session, envelope, mechanism, name and password."""
        credentials = arguments[-1]
        self.logins.append((credentials.login, credentials.password))
        return AuthResult(success=credentials.password == b"sesame")


@asynccontextmanager
async def mail(
    context: ssl.SSLContext | None = None, *, login: bool = False
) -> AsyncIterator[MailServer]:
    """A mail server, with STARTTLS where there is a context."""
    found = MailServer()
    options: dict[str, Any] = {"tls_context": context, "require_starttls": context is not None}
    if login:
        options |= {"authenticator": found.authenticate, "auth_required": True}

    def made() -> SMTP:
        return SMTP(found, hostname="localhost", **options)

    loop = asyncio.get_running_loop()
    factory: Callable[[], SMTP] = made
    server = await loop.create_server(factory, HOST, 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


@dataclass(slots=True)
class Gate:
    """A proxy in front of a server that forwards connections once its gate is opened."""

    upstream_port: int
    port: int = 0
    connections: int = 0
    # With a number, the gate opens at that many connections.
    opens_at: int | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.arrived.set()
        if self.connections == self.opens_at:
            self.gate.set()
        await self.gate.wait()
        try:
            inner, outer = await asyncio.open_connection(HOST, self.upstream_port)
            await asyncio.gather(copy(reader, outer), copy(inner, writer))
        except ConnectionError:
            writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies a stream to its end."""
    with suppress(ConnectionError):
        while more := await reader.read(65536):
            writer.write(more)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def gated(upstream_port: int, opens_at: int | None = None) -> AsyncIterator[Gate]:
    """A proxy whose gate is closed until it is opened."""
    found = Gate(upstream_port, opens_at=opens_at)
    server = await asyncio.start_server(found.answer, HOST, 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        try:
            yield found
        finally:
            found.gate.set()
