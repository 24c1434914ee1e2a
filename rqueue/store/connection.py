"""The connection to one Redis: clients per process and loop, calls that are re-sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from rqueue.errors import ConfigError, RQueueError, StoreUnavailable
from rqueue.store.address import CLUSTER, Client, parse
from rqueue.store.cancels import cancels_so_far, check_cancelled
from rqueue.store.clients import Clients, open_clients
from rqueue.store.faults import DRIVER_ERRORS, translate, translated
from rqueue.store.server import ServerInfo, ask_info, read_info

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from rqueue.store.scripts import Argument

__all__ = ["Client", "Connection", "ServerInfo", "connect", "translate", "translated", "wrap"]

T = TypeVar("T")

POOL_SIZE = 32
BLOCKING_POOL_SIZE = 256
BLOCK_SEC = 5.0
FIRST_PAUSE_SEC = 0.02
LONGEST_PAUSE_SEC = 1.0
OLDEST: Final = (7, 0)


class Connection:
    """One server as this process sees it.

    Clients belong to an event loop and a process: each loop has its own, and a fork starts
    afresh, leaving the parent's sockets alone.
    """

    def __init__(
        self,
        address: str,
        opener: Callable[[], Clients],
        *,
        timeout_sec: float,
        cluster: bool = False,
        random: Random | None = None,
    ) -> None:
        self.address = address
        self.timeout_sec = timeout_sec
        self.cluster = cluster
        self.opener = opener
        self.random = random or Random()
        self.pid = os.getpid()
        self.loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"Connection({self.address})"

    @property
    def client(self) -> Client:
        """The client for calls that answer at once."""
        return self.clients().main

    def clients(self) -> Clients:
        """This loop's clients, opened at first use."""
        if self.pid != os.getpid():
            # Kept, not dropped: their destructors would speak on the parent's sockets.
            ABANDONED.append(self.loops)
            self.loops = WeakKeyDictionary()
            self.pid = os.getpid()
        loop = asyncio.get_running_loop()
        found = self.loops.get(loop)
        if found is None:
            # A loop that was closed without closing us is held by its own clients: let both go.
            for closed in [known for known in self.loops if known.is_closed()]:
                del self.loops[closed]
            found = self.loops[loop] = self.opener()
        return found

    async def call(
        self,
        send: Callable[[Client], Awaitable[T]],
        *,
        what: str = "redis",
        timeout_sec: float | None = None,
    ) -> T:
        """What `send` answers; the same call is sent again until its time is used up.

        `send` must be safe to send twice. Raises StoreUnavailable when the time is up, and
        only errors of ours.
        """
        return await self.until_answered(lambda: send(self.client), what, timeout_sec)

    async def ask(self, commands: Iterable[Sequence[Argument]], *, what: str) -> list[Any]:
        """The replies to commands, all sent again as `call` does; the quick way for scripts.

        `commands` is gone through anew for each try.
        """
        return await self.quickly(lambda: self.clients().ask(commands), what)

    async def ask_together(self, commands: Sequence[Sequence[Argument]], *, what: str) -> list[Any]:
        """`ask` for many small reads, which go out in one piece. Not for a cluster, where each
        would go alone.
        """
        return await self.quickly(lambda: self.clients().ask_together(commands), what)

    async def ask_one(self, words: Sequence[Argument], *, what: str) -> Any:
        """`ask` for one command: most calls are such, and what lies between costs them."""
        wire = self.clients().wire
        if wire is None:
            return await self.quickly(lambda: self.clients().ask_one(words), what)
        began = monotonic()
        try:
            return await wire.ask_one(words)
        except DRIVER_ERRORS as error:
            left = self.time_left(error, began, what)
        return await self.until_answered(lambda: self.clients().ask_one(words), what, left)

    async def wait(self, words: Sequence[Argument], wait_sec: float, *, what: str) -> Any:
        """The reply to a read that may wait at the server for so long. Not sent again: what a
        lost reply took is gone, so the caller must look anew at what it waits for.
        """
        try:
            return await self.clients().wait(words, wait_sec)
        except DRIVER_ERRORS as error:
            raise translate(error, what) from error

    async def quickly(self, send: Callable[[], Awaitable[T]], what: str) -> T:
        """What `send` answers; only where the server is away, the long way of trying."""
        if self.cluster:
            # Its client bounds each of its steps; a wire bounds a try as a whole, by this time.
            return await self.until_answered(send, what, None)
        began = monotonic()
        try:
            return await send()
        except DRIVER_ERRORS as error:
            left = self.time_left(error, began, what)
        return await self.until_answered(send, what, left)

    def time_left(self, error: BaseException, began: float, what: str) -> float:
        """How long a call that failed may be tried again; raises what it means where it may not."""
        fault = translate(error, f"{self.address} {what}")
        left = began + self.timeout_sec - monotonic()
        if not isinstance(fault, StoreUnavailable) or left <= 0:
            raise fault from error
        return left

    async def until_answered(
        self, send: Callable[[], Awaitable[T]], what: str, timeout_sec: float | None
    ) -> T:
        """What `send` answers, tried until the time is up; a try under way then is given up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self.timeout_sec if timeout_sec is None else timeout_sec)
        pause, cancels = FIRST_PAUSE_SEC, cancels_so_far()
        # What is told when the time is up in the middle of a try: why the one before it failed.
        known: RQueueError | None = None
        try:
            async with asyncio.timeout_at(until):
                while True:
                    try:
                        answer = await send()
                        check_cancelled(cancels)
                        return answer
                    except DRIVER_ERRORS as error:
                        fault = translate(error, f"{self.address} {what}")
                        wait = pause * self.random.uniform(0.5, 1.5)
                        if not isinstance(fault, StoreUnavailable) or loop.time() + wait >= until:
                            raise fault from error
                        known = fault
                    await asyncio.sleep(wait)
                    pause = min(pause * 2, LONGEST_PAUSE_SEC)
        except TimeoutError as error:
            late = StoreUnavailable(f"{self.address} {what}: no answer in time")
            raise known or late from error

    async def server_info(self) -> ServerInfo:
        """What the server is; one that is too old is refused with a ConfigError."""
        facts = await self.call(ask_info, what="INFO")
        info = read_info(facts)
        if info.name != "valkey" and info.version < OLDEST:
            found = ".".join(map(str, info.version))
            raise ConfigError("url", f"needs Redis 7.0 or later, or Valkey; this is Redis {found}")
        if info.cluster and not self.cluster:
            raise ConfigError("url", "the server is part of a cluster: write redis+cluster://")
        return info

    async def aclose(self) -> None:
        """Close this loop's clients; a later call opens them again."""
        if self.pid != os.getpid():
            return
        found = self.loops.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.aclose()


# Clients of a parent process, see Connection.clients.
ABANDONED: list[object] = []


def connect(
    url: str,
    *,
    timeout_sec: float = 10,
    block_sec: float = BLOCK_SEC,
    pool_size: int = POOL_SIZE,
    blocking_pool_size: int = BLOCKING_POOL_SIZE,
) -> Connection:
    """A connection to the server that the URL means; nothing is sent yet.

    `timeout_sec` bounds a whole call with its re-sends, `block_sec` is the longest block.
    """
    address = parse(url)
    # Half of it, so that a reply lost on a half-open connection leaves time for a second try.
    reply_sec = timeout_sec / 2

    def opener() -> Clients:
        return open_clients(
            address,
            reply_sec=reply_sec,
            wait_sec=timeout_sec,
            block_sec=block_sec,
            sizes=(pool_size, blocking_pool_size),
        )

    return Connection(
        str(address), opener, timeout_sec=timeout_sec, cluster=address.kind == CLUSTER
    )


def wrap(client: Redis, *, timeout_sec: float = 10) -> Connection:
    """A connection over a client that exists already, such as fakeredis."""
    return Connection("client", lambda: Clients(client, client), timeout_sec=timeout_sec)
