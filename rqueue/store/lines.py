"""Connections for reads that wait at the server: each has one for itself, kept for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import RedisError

from rqueue.store.cancels import cancels_so_far, check_cancelled
from rqueue.store.wire import Line, line_of

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection

    from rqueue.store.scripts import Argument


class Leased(NamedTuple):
    """A line, and the driver's connection that it stands on."""

    line: Line
    made: AbstractConnection


class Lines:
    """The waiting reads of one event loop."""

    def __init__(self, client: Redis, *, reply_sec: float) -> None:
        self.client = client
        self.reply_sec = reply_sec
        self.idle: list[Leased] = []
        self.broken: list[Leased] = []

    async def ask(self, words: Sequence[Argument], wait_sec: float) -> Any:
        """The reply to a command that the server may hold back for `wait_sec`.

        A read that ends in any other way, a cancel too, closes its line: the server may have
        given it something already, and nobody may take that for the answer to the next.
        """
        leased = await self.take()
        line = leased.line
        late = asyncio.get_running_loop().call_later(
            wait_sec + self.reply_sec, line.transport.abort
        )
        answered = False
        try:
            reply = await line.send(words)
            answered = True
        finally:
            late.cancel()
            if answered:
                self.idle.append(leased)
            else:
                line.transport.abort()
                self.broken.append(leased)
        if isinstance(reply, RedisError):
            raise reply
        return reply

    async def take(self) -> Leased:
        """A line that nobody reads from: an idle one, or a new one."""
        while self.idle:
            leased = self.idle.pop()
            if leased.line.is_open:
                return leased
            self.broken.append(leased)
        await self.sort_out()
        cancels = cancels_so_far()
        async with asyncio.timeout(self.reply_sec):
            made = await self.client.connection_pool.get_connection()
        leased = Leased(line_of(made), made)
        try:
            check_cancelled(cancels)
        except asyncio.CancelledError:
            self.idle.append(leased)
            raise
        return leased

    async def sort_out(self) -> None:
        """Gives the driver its closed connections back."""
        while self.broken:
            made = self.broken.pop().made
            await made.disconnect(nowait=True)
            await self.client.connection_pool.release(made)

    async def aclose(self) -> None:
        """Closes those that are idle; one that is read from is closed by its reader."""
        self.broken += self.idle
        self.idle = []
        for leased in self.broken:
            leased.line.transport.abort()
        await self.sort_out()
