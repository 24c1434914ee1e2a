"""One connection for all calls of an event loop: a pool and a client would add more overhead to
each call than the call costs.

redis-py opens the connection (address, login, TLS, Sentinel); then its transport is used directly.
Commands are written as they come and replies arrive in that order, so that many callers share one
connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import hiredis
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as DriverConnectionError
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError

from rqueue.store.url import close_client

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection

    from rqueue.store.library import Argument

# How many commands of one call may be unanswered: more would only use memory.
WINDOW = 16


class RawConnection(asyncio.Protocol):
    """One open connection; replies are passed to the callers in the order of their commands."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.reader = hiredis.Reader(replyError=error_of)
        self.pending: deque[asyncio.Future[Any]] = deque()

    def send(self, words: Sequence[Argument]) -> asyncio.Future[Any]:
        """Sends one command; its reply is the future's result, also an error of the server."""
        if not self.is_open:
            raise DriverConnectionError("the connection was lost")
        # Packed first: what cannot be sent must not wait for a reply.
        command = packed(words)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.pending.append(future)
        self.transport.write(command)
        return future

    def send_all(self, commands: Iterable[Sequence[Argument]]) -> list[asyncio.Future[Any]]:
        """Sends commands in one write; their replies come in this order."""
        if not self.is_open:
            raise DriverConnectionError("the connection was lost")
        piece = [packed(words) for words in commands]
        loop = asyncio.get_running_loop()
        sent: list[asyncio.Future[Any]] = [loop.create_future() for _ in piece]
        self.pending.extend(sent)
        self.transport.write(b"".join(piece))
        return sent

    def data_received(self, data: bytes) -> None:
        """Passes complete replies to their futures."""
        self.reader.feed(data)
        while (reply := self.reader.gets()) is not False:
            future = self.pending.popleft()
            # A cancelled one still has its place in the order.
            if not future.done():
                future.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """Fails all waiting calls: what they sent may or may not have been carried out."""
        self.transport.abort()
        while self.pending:
            future = self.pending.popleft()
            if not future.done():
                future.set_exception(DriverConnectionError("the connection was lost"))

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()


class Wire:
    """The shared connection of one event loop, opened at first use and again when it is lost."""

    def __init__(self, client: Redis, *, reply_sec: float) -> None:
        self.client = client
        self.reply_sec = reply_sec
        self.raw: RawConnection | None = None
        self.driver_connection: AbstractConnection | None = None
        self.opening = asyncio.Lock()

    async def execute(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to commands, each sent as soon as it is made.

        A reply that does not come in time closes the connection: it is half-open or its server is
        stuck, a late reply must not be taken for another one, and all waiting calls are repeated.
        """
        raw = self.raw
        if raw is None or not raw.is_open:
            raw = await self.open()
        replies = await replies_to(raw, commands, self.reply_sec)
        if any(isinstance(reply, ReadOnlyError) for reply in replies):
            # A master that was demoted: the next connection leads to the new one.
            raw.transport.abort()
        return checked(replies)

    async def execute_one(self, words: Sequence[Argument]) -> Any:
        """`execute` for one command, without a loop: most calls are such."""
        raw = self.raw
        if raw is None or not raw.is_open:
            raw = await self.open()
        late = asyncio.get_running_loop().call_later(self.reply_sec, raw.transport.abort)
        try:
            reply = await raw.send(words)
        finally:
            late.cancel()
        if isinstance(reply, RedisError):
            if isinstance(reply, ReadOnlyError):
                raw.transport.abort()
            raise reply
        return reply

    async def execute_together(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """`execute` for many small reads in one write."""
        raw = self.raw
        if raw is None or not raw.is_open:
            raw = await self.open()
        late = asyncio.get_running_loop().call_later(self.reply_sec, raw.transport.abort)
        sent: list[asyncio.Future[Any]] = []
        try:
            sent = raw.send_all(commands)
            for future in sent[-1:]:
                # Those before it have been answered by then, or the connection is lost.
                await future
            return checked([future.result() for future in sent])
        finally:
            late.cancel()
            discard(sent)

    async def open(self) -> RawConnection:
        """A new connection, unless another caller has just opened one.

        Bounded by the time of one reply, with the wait for other callers: a server that accepts the
        connection and never replies must block no caller.
        """
        async with asyncio.timeout(self.reply_sec), self.opening:
            if self.raw is None or not self.raw.is_open:
                await self.drop()
                self.driver_connection = await self.client.connection_pool.get_connection()
                self.raw = raw_connection(self.driver_connection)
            return self.raw

    async def drop(self) -> None:
        """Returns the driver's connection to its pool, closed."""
        if self.raw is not None:
            self.raw.transport.abort()
        if self.driver_connection is not None:
            await self.driver_connection.disconnect(nowait=True)
            await self.client.connection_pool.release(self.driver_connection)
        self.raw = self.driver_connection = None

    async def aclose(self) -> None:
        """Closes the connection."""
        await self.drop()
        await close_client(self.client)


def raw_connection(driver_connection: AbstractConnection) -> RawConnection:
    """A RawConnection on the transport of a connection that redis-py has opened."""
    writer = driver_connection._writer
    assert writer is not None
    transport: Any = writer.transport
    raw = RawConnection(transport)
    transport.set_protocol(raw)
    return raw


async def replies_to(
    raw: RawConnection, commands: Iterable[Sequence[Argument]], reply_sec: float
) -> list[Any]:
    """Sends commands and waits for their replies, each within `reply_sec` after the one before."""
    loop = asyncio.get_running_loop()
    late = loop.call_later(reply_sec, raw.transport.abort)
    sent: list[asyncio.Future[Any]] = []
    replies: list[Any] = []
    try:
        for words in commands:
            if sent:
                # The transport sends the previous command while the next is made.
                await asyncio.sleep(0)
            if len(sent) - len(replies) >= WINDOW:
                replies.append(await sent[len(replies)])
                late.cancel()
                late = loop.call_later(reply_sec, raw.transport.abort)
            sent.append(raw.send(words))
        for future in sent[len(replies) :]:
            replies.append(await future)
            late.cancel()
            late = loop.call_later(reply_sec, raw.transport.abort)
        return replies
    finally:
        late.cancel()
        discard(sent)


def discard(sent: list[asyncio.Future[Any]]) -> None:
    """Discards replies: one error is raised, the event loop need not log the others."""
    for future in sent:
        if not future.cancel() and not future.cancelled():
            future.exception()


def checked(replies: list[Any]) -> list[Any]:
    """The replies, if none is an error. With several calls each may be refused for want of memory
    by itself: such an error stays a value.
    """
    several = len(replies) > 1
    for reply in replies:
        # Not every error reply is a ResponseError: LOADING is none.
        if isinstance(reply, RedisError) and not (several and isinstance(reply, OutOfMemoryError)):
            raise reply
    return replies


def packed(words: Sequence[Argument]) -> bytes:
    """A command in the server's protocol, encoded by hiredis."""
    everything: Any = tuple(words)
    command: bytes = hiredis.pack_command(everything)
    return command


def error_of(text: str) -> Exception:
    """The driver's error for an error reply."""
    parse: Any = DefaultParser.parse_error
    error: Exception = parse(text)
    return error
