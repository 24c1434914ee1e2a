"""The clients of one event loop: for calls that answer immediately, and for reads that block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from rqueue.store.errors import DRIVER_ERRORS
from rqueue.store.url import Address, Client, close_client, open_client
from rqueue.store.wire import RawConnection, Wire, checked, raw_connection

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

    from rqueue.store.library import Argument


CANCEL_AGAIN_SEC = 0.05


@dataclass(slots=True)
class Clients:
    """The clients of one event loop."""

    main: Client
    blocking: Client
    wire: Wire | None = None
    blocking_reads: BlockingConnections | None = None

    async def execute(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to commands, by the fastest way available."""
        if self.wire is not None:
            return await self.wire.execute(commands)
        replies: list[Any] = []
        for words in commands:
            try:
                replies.append(await self.main.execute_command(*words))
            except OutOfMemoryError as error:
                replies.append(error)
        return checked(replies)

    async def execute_together(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to many small reads, by the fastest way available."""
        if self.wire is not None:
            return await self.wire.execute_together(commands)
        return await self.execute(commands)

    async def execute_one(self, words: Sequence[Argument]) -> Any:
        """The reply to one command, by the fastest way available."""
        if self.wire is not None:
            return await self.wire.execute_one(words)
        return await self.main.execute_command(*words)

    async def wait(self, words: Sequence[Argument], wait_sec: float) -> Any:
        """The reply to a command that may block at the server for `wait_sec`."""
        if self.blocking_reads is not None:
            return await self.blocking_reads.execute(words, wait_sec)
        return await stoppable(self.blocking.execute_command(*words))

    async def aclose(self) -> None:
        """Closes all of them."""
        # Errors of an unavailable server do not matter here.
        for opened in (self.wire, self.blocking_reads):
            if opened is not None:
                with suppress(*DRIVER_ERRORS):
                    await opened.aclose()
        for client in (self.main, self.blocking):
            with suppress(*DRIVER_ERRORS):
                await close_client(client)


def open_clients(
    address: Address,
    *,
    reply_sec: float,
    wait_sec: float,
    block_sec: float,
    sizes: tuple[int, int],
) -> Clients:
    """Clients of a server. The fast ways need a single server: a cluster's client must choose the
    node for each call. `sizes` are the numbers of connections for calls and for reads.
    """
    calls, reads = sizes
    blocking = open_client(
        address, timeout_sec=block_sec + reply_sec, wait_sec=wait_sec, size=reads
    )
    quick = open_client(address, timeout_sec=reply_sec, wait_sec=wait_sec, size=calls, timed=False)
    return Clients(
        main=open_client(address, timeout_sec=reply_sec, wait_sec=wait_sec, size=calls),
        blocking=blocking,
        wire=Wire(quick, reply_sec=reply_sec) if isinstance(quick, Redis) else None,
        blocking_reads=BlockingConnections(blocking, reply_sec=reply_sec)
        if isinstance(blocking, Redis)
        else None,
    )


async def stoppable(read: Awaitable[Any]) -> Any:
    """The result of a long read; a cancel ends it immediately, even one that the driver swallows.

    See `check_cancelled`: a read that missed its cancel would block on.
    """
    reading = asyncio.ensure_future(read)
    try:
        await asyncio.wait({reading})
    finally:
        while not reading.done():
            reading.cancel()
            await asyncio.wait({reading}, timeout=CANCEL_AGAIN_SEC)
    return reading.result()


class PooledConnection(NamedTuple):
    """A raw connection, and the driver's connection that it uses."""

    raw: RawConnection
    driver_connection: AbstractConnection


class BlockingConnections:
    """The connections for blocking reads of one event loop."""

    def __init__(self, client: Redis, *, reply_sec: float) -> None:
        self.client = client
        self.reply_sec = reply_sec
        self.idle: list[PooledConnection] = []
        self.broken: list[PooledConnection] = []

    async def execute(self, words: Sequence[Argument], wait_sec: float) -> Any:
        """The reply to a command that may block at the server for `wait_sec`.

        A read that ends in any other way, also by a cancel, closes its connection: the server may
        have replied already, and the next read must not take that reply.
        """
        pooled = await self.take()
        raw = pooled.raw
        late = asyncio.get_running_loop().call_later(wait_sec + self.reply_sec, raw.transport.abort)
        answered = False
        try:
            reply = await raw.send(words)
            answered = True
        finally:
            late.cancel()
            if answered:
                self.idle.append(pooled)
            else:
                raw.transport.abort()
                self.broken.append(pooled)
        if isinstance(reply, RedisError):
            raise reply
        return reply

    async def take(self) -> PooledConnection:
        """A connection without a reader: an idle one, or a new one."""
        while self.idle:
            pooled = self.idle.pop()
            if pooled.raw.is_open:
                return pooled
            self.broken.append(pooled)
        await self.release_broken()
        cancels = cancels_so_far()
        async with asyncio.timeout(self.reply_sec):
            driver_connection = await self.client.connection_pool.get_connection()
        pooled = PooledConnection(raw_connection(driver_connection), driver_connection)
        try:
            check_cancelled(cancels)
        except asyncio.CancelledError:
            self.idle.append(pooled)
            raise
        return pooled

    async def release_broken(self) -> None:
        """Returns closed connections to the driver's pool."""
        while self.broken:
            driver_connection = self.broken.pop().driver_connection
            await driver_connection.disconnect(nowait=True)
            await self.client.connection_pool.release(driver_connection)

    async def aclose(self) -> None:
        """Closes the idle connections; one that is in use is closed by its reader."""
        self.broken += self.idle
        self.idle = []
        for pooled in self.broken:
            pooled.raw.transport.abort()
        await self.release_broken()


def cancels_so_far() -> int:
    """How many cancels the running task has received."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def check_cancelled(before: int) -> None:
    """Raises CancelledError where the driver swallowed a cancel.

    redis-py sends under `asyncio.wait_for`, which before Python 3.12 loses a cancel that arrives
    when the sending is just complete.
    """
    if cancels_so_far() > before:
        raise asyncio.CancelledError
