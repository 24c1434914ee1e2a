"""One command over a kept connection: what a pool and a client add to each call costs more
than the call itself.

redis-py still makes the connections: address, login, TLS, Sentinel and parsing are its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hiredis import pack_command
from redis.exceptions import ConnectionError, OutOfMemoryError, ResponseError

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection

    from rqueue.store.scripts import Argument


class Wire:
    """Connections of one event loop, each used by one call at a time, the newest first."""

    def __init__(self, client: Redis, *, reply_sec: float) -> None:
        self.client = client
        self.reply_sec = reply_sec
        self.free: list[AbstractConnection] = []
        # Who waits for a connection waits here: the pool never hears of one that became free.
        self.turns = asyncio.Semaphore(client.connection_pool.max_connections)

    async def ask(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to commands that are sent one behind the other, each as soon as it is made.

        A reply that does not come in time is a TimeoutError, and its connection is closed:
        nobody may read a late answer as its own. See `checked` for errors among the replies.
        """
        pool = self.client.connection_pool
        async with asyncio.timeout(self.reply_sec), self.turns:
            line = self.free.pop() if self.free else await pool.get_connection()
            try:
                sent = 0
                for words in commands:
                    await line.send_packed_command(packed(words), check_health=False)
                    sent += 1
                replies = [await reply_of(line) for _ in range(sent)]
            except BaseException as error:
                # Whatever it was, cancellation included: a reply may still come.
                await self.drop(line)
                if isinstance(error, ConnectionError):
                    # The others were opened to the same server and are most likely dead too.
                    await self.drop_free()
                raise
            self.free.append(line)
        return checked(replies)

    async def aclose(self) -> None:
        """Closes every connection."""
        await self.drop_free()
        await self.client.aclose()

    async def drop_free(self) -> None:
        """Closes the connections that nobody uses."""
        while self.free:
            await self.drop(self.free.pop())

    async def drop(self, line: AbstractConnection) -> None:
        """Closes one connection; the pool opens it again when it is needed."""
        await line.disconnect(nowait=True)
        await self.client.connection_pool.release(line)


def checked(replies: list[Any]) -> list[Any]:
    """The replies, if none is an error. Of several calls each may be refused for want of memory
    by itself, since those before it were taken: such a refusal stays a value.
    """
    several = len(replies) > 1
    for reply in replies:
        if isinstance(reply, ResponseError) and not (
            several and isinstance(reply, OutOfMemoryError)
        ):
            raise reply
    return replies


async def reply_of(line: AbstractConnection) -> Any:
    """One reply; an error of the server's is a value here, since others may follow it."""
    try:
        return await line.read_response()
    except ResponseError as error:
        return error


def packed(words: Sequence[Argument]) -> bytes:
    """A command in the server's protocol, made by hiredis."""
    everything: Any = tuple(words)
    command: bytes = pack_command(everything)
    return command
