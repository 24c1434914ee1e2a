"""One connection for all calls of an event loop: what a pool and a client add to each call costs
more than the call itself.

redis-py makes the connection (address, login, TLS, Sentinel); then its transport is ours. Calls go
out as they come and the replies come back in that order, so that many callers share one line.
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

from rqueue.store.address import close_client

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection

    from rqueue.store.scripts import Argument

# How many commands of one call may be unanswered: more would only fill memory.
WINDOW = 16


class Line(asyncio.Protocol):
    """One open connection, its replies given to those who asked, in the order of asking."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.reader = hiredis.Reader(replyError=error_of)
        self.asked: deque[asyncio.Future[Any]] = deque()

    def send(self, words: Sequence[Argument]) -> asyncio.Future[Any]:
        """Sends one command; its reply is the future's result, an error of the server's too."""
        if not self.is_open:
            raise DriverConnectionError("the connection was lost")
        # Packed first: what cannot be sent must have no place among those that wait for replies.
        command = packed(words)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append(future)
        self.transport.write(command)
        return future

    def send_all(self, commands: Iterable[Sequence[Argument]]) -> list[asyncio.Future[Any]]:
        """Sends commands in one piece; their replies come in this order."""
        if not self.is_open:
            raise DriverConnectionError("the connection was lost")
        piece = [packed(words) for words in commands]
        loop = asyncio.get_running_loop()
        sent: list[asyncio.Future[Any]] = [loop.create_future() for _ in piece]
        self.asked.extend(sent)
        self.transport.write(b"".join(piece))
        return sent

    def data_received(self, data: bytes) -> None:
        """Hands out what has come in."""
        self.reader.feed(data)
        while (reply := self.reader.gets()) is not False:
            future = self.asked.popleft()
            # One that nobody waits for any more still has its place in the order.
            if not future.done():
                future.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """Tells all who wait: what they sent may or may not have been carried out."""
        self.transport.abort()
        while self.asked:
            future = self.asked.popleft()
            if not future.done():
                future.set_exception(DriverConnectionError("the connection was lost"))

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()


class Wire:
    """The line of one event loop, opened at first use and again when it is lost."""

    def __init__(self, client: Redis, *, reply_sec: float) -> None:
        self.client = client
        self.reply_sec = reply_sec
        self.line: Line | None = None
        self.made: AbstractConnection | None = None
        self.opening = asyncio.Lock()

    async def ask(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to commands that are sent one behind the other, each as soon as it is made.

        A reply that does not come in time closes the line: it is half-open or its server is
        stuck, nobody may read a late answer as its own, and all who wait on it send again.
        """
        line = self.line
        if line is None or not line.is_open:
            line = await self.open()
        replies = await exchange(line, commands, self.reply_sec)
        if any(isinstance(reply, ReadOnlyError) for reply in replies):
            # A master that was demoted: the next line leads to the new one.
            line.transport.abort()
        return checked(replies)

    async def ask_one(self, words: Sequence[Argument]) -> Any:
        """`ask` for one command: most calls are such, and the loop around it costs them."""
        line = self.line
        if line is None or not line.is_open:
            line = await self.open()
        late = asyncio.get_running_loop().call_later(self.reply_sec, line.transport.abort)
        try:
            reply = await line.send(words)
        finally:
            late.cancel()
        if isinstance(reply, RedisError):
            if isinstance(reply, ReadOnlyError):
                line.transport.abort()
            raise reply
        return reply

    async def ask_together(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """`ask` for many small reads: made one by one, each would cost more than it asks for."""
        line = self.line
        if line is None or not line.is_open:
            line = await self.open()
        late = asyncio.get_running_loop().call_later(self.reply_sec, line.transport.abort)
        sent: list[asyncio.Future[Any]] = []
        try:
            sent = line.send_all(commands)
            for future in sent[-1:]:
                # Those before it have been answered by then, or the line is lost.
                await future
            return checked([future.result() for future in sent])
        finally:
            late.cancel()
            forget(sent)

    async def open(self) -> Line:
        """A new line, unless another caller has just opened one.

        In the time of one reply, with the wait for others who try: a server that takes the
        connection and says nothing must hold nobody.
        """
        async with asyncio.timeout(self.reply_sec), self.opening:
            if self.line is None or not self.line.is_open:
                await self.drop()
                self.made = await self.client.connection_pool.get_connection()
                self.line = line_of(self.made)
            return self.line

    async def drop(self) -> None:
        """Gives the driver its connection back, closed."""
        if self.line is not None:
            self.line.transport.abort()
        if self.made is not None:
            await self.made.disconnect(nowait=True)
            await self.client.connection_pool.release(self.made)
        self.line = self.made = None

    async def aclose(self) -> None:
        """Closes the line."""
        await self.drop()
        await close_client(self.client)


def line_of(made: AbstractConnection) -> Line:
    """A line on the transport of a connection that redis-py has opened."""
    writer = made._writer
    assert writer is not None
    transport: Any = writer.transport
    line = Line(transport)
    transport.set_protocol(line)
    return line


async def exchange(
    line: Line, commands: Iterable[Sequence[Argument]], reply_sec: float
) -> list[Any]:
    """Sends commands and waits for their replies, each in `reply_sec` after the one before."""
    loop = asyncio.get_running_loop()
    late = loop.call_later(reply_sec, line.transport.abort)
    sent: list[asyncio.Future[Any]] = []
    replies: list[Any] = []
    try:
        for words in commands:
            if sent:
                # The transport sends the one before while the next is made.
                await asyncio.sleep(0)
            if len(sent) - len(replies) >= WINDOW:
                replies.append(await sent[len(replies)])
                late.cancel()
                late = loop.call_later(reply_sec, line.transport.abort)
            sent.append(line.send(words))
        for future in sent[len(replies) :]:
            replies.append(await future)
            late.cancel()
            late = loop.call_later(reply_sec, line.transport.abort)
        return replies
    finally:
        late.cancel()
        forget(sent)


def forget(sent: list[asyncio.Future[Any]]) -> None:
    """Lets go of replies: one error is told, the loop need not complain of the others."""
    for future in sent:
        if not future.cancel() and not future.cancelled():
            future.exception()


def checked(replies: list[Any]) -> list[Any]:
    """The replies, if none is an error. Of several calls each may be refused for want of memory
    by itself, since those before it were taken: such a refusal stays a value.
    """
    several = len(replies) > 1
    for reply in replies:
        # Not every error that a server answers is a ResponseError: LOADING is none.
        if isinstance(reply, RedisError) and not (several and isinstance(reply, OutOfMemoryError)):
            raise reply
    return replies


def packed(words: Sequence[Argument]) -> bytes:
    """A command in the server's protocol, made by hiredis."""
    everything: Any = tuple(words)
    command: bytes = hiredis.pack_command(everything)
    return command


def error_of(text: str) -> Exception:
    """The driver's error for an error that the server answered."""
    parse: Any = DefaultParser.parse_error
    error: Exception = parse(text)
    return error
