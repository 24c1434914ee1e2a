"""The clients of one event loop: for calls that answer at once, and for reads that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from rqueue.store.address import Address, Client, close_client, open_client
from rqueue.store.faults import DRIVER_ERRORS
from rqueue.store.lines import Lines
from rqueue.store.wire import Wire, checked

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument

ASK_AGAIN_SEC = 0.05


@dataclass(slots=True)
class Clients:
    """The clients of one event loop."""

    main: Client
    blocking: Client
    wire: Wire | None = None
    lines: Lines | None = None

    async def ask(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to commands, by the quickest way there is."""
        if self.wire is not None:
            return await self.wire.ask(commands)
        replies: list[Any] = []
        for words in commands:
            try:
                replies.append(await self.main.execute_command(*words))
            except OutOfMemoryError as error:
                replies.append(error)
        return checked(replies)

    async def ask_together(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """The replies to many small reads, by the quickest way there is."""
        if self.wire is not None:
            return await self.wire.ask_together(commands)
        return await self.ask(commands)

    async def ask_one(self, words: Sequence[Argument]) -> Any:
        """The reply to one command, by the quickest way there is."""
        if self.wire is not None:
            return await self.wire.ask_one(words)
        return await self.main.execute_command(*words)

    async def wait(self, words: Sequence[Argument], wait_sec: float) -> Any:
        """The reply to a command that the server may hold back for so long."""
        if self.lines is not None:
            return await self.lines.ask(words, wait_sec)
        return await stoppable(self.blocking.execute_command(*words))

    async def aclose(self) -> None:
        """Closes all of them."""
        # A server that is gone cannot be told goodbye.
        for opened in (self.wire, self.lines):
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
    """Clients to a server. The quick ways are for a single one: a cluster's client must choose the
    node for each call. `sizes` are how many connections there may be for calls and for reads.
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
        lines=Lines(blocking, reply_sec=reply_sec) if isinstance(blocking, Redis) else None,
    )


async def stoppable(read: Awaitable[Any]) -> Any:
    """What a long read gives; a cancel ends it at once, even one that the driver swallows.

    See `check_cancelled`: a read that missed its cancel would block on.
    """
    reading = asyncio.ensure_future(read)
    try:
        await asyncio.wait({reading})
    finally:
        while not reading.done():
            reading.cancel()
            await asyncio.wait({reading}, timeout=ASK_AGAIN_SEC)
    return reading.result()
