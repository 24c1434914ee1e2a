"""The connection to one Redis: clients per process and loop, calls that are re-sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.store.address import CLUSTER, Address, Client, close_client, open_client, parse
from rqueue.store.faults import DRIVER_ERRORS, translate, translated
from rqueue.store.server import ServerInfo, ask_info, read_info
from rqueue.store.wire import Wire, checked

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument

__all__ = ["Client", "Connection", "ServerInfo", "connect", "translate", "translated", "wrap"]

T = TypeVar("T")

POOL_SIZE = 32
BLOCKING_POOL_SIZE = 256
BLOCK_SEC = 5.0
FIRST_PAUSE_SEC = 0.02
LONGEST_PAUSE_SEC = 1.0
OLDEST: Final = (7, 0)


@dataclass(slots=True)
class Clients:
    """The clients of one event loop."""

    main: Client
    blocking: Client
    wire: Wire | None = None

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

    async def ask_one(self, words: Sequence[Argument]) -> Any:
        """The reply to one command, by the quickest way there is."""
        if self.wire is not None:
            return await self.wire.ask_one(words)
        return await self.main.execute_command(*words)


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

    def blocking(self) -> Client:
        """The client for BLPOP and its like: own pool, a timeout longer than the block."""
        return self.clients().blocking

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

    async def ask_one(self, words: Sequence[Argument], *, what: str) -> Any:
        """`ask` for one command."""
        return await self.quickly(lambda: self.clients().ask_one(words), what)

    async def quickly(self, send: Callable[[], Awaitable[T]], what: str) -> T:
        """What `send` answers; only where the server is away, the long way of trying."""
        if self.cluster:
            # Its client bounds each of its steps; a wire bounds a try as a whole, by this time.
            return await self.until_answered(send, what, None)
        began = monotonic()
        try:
            return await send()
        except DRIVER_ERRORS as error:
            fault = translate(error, f"{self.address} {what}")
            left = began + self.timeout_sec - monotonic()
            if not isinstance(fault, StoreUnavailable) or left <= 0:
                raise fault from error
        return await self.until_answered(send, what, left)

    async def until_answered(
        self, send: Callable[[], Awaitable[T]], what: str, timeout_sec: float | None
    ) -> T:
        """What `send` answers, tried until the time is up; a try under way then is given up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self.timeout_sec if timeout_sec is None else timeout_sec)
        pause, cancels = FIRST_PAUSE_SEC, cancels_so_far()
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
                    await asyncio.sleep(wait)
                    pause = min(pause * 2, LONGEST_PAUSE_SEC)
        except TimeoutError as error:
            raise StoreUnavailable(f"{self.address} {what}: no answer in time") from error

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
        if found is None:
            return
        if found.wire is not None:
            with suppress(*DRIVER_ERRORS):
                await found.wire.aclose()
        for client in (found.main, found.blocking):
            # A server that is gone cannot be told goodbye.
            with suppress(*DRIVER_ERRORS):
                await close_client(client)


def cancels_so_far() -> int:
    """How often the running task was asked to stop."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def check_cancelled(before: int) -> None:
    """Stops a task that was asked to and whose asking the driver swallowed.

    redis-py sends under `asyncio.wait_for`, which before Python 3.12 forgets a cancel that comes
    when the sending is just done.
    """
    if cancels_so_far() > before:
        raise asyncio.CancelledError


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
        return Clients(
            wire=open_wire(address, reply_sec=reply_sec, wait_sec=timeout_sec, size=pool_size),
            main=open_client(address, timeout_sec=reply_sec, wait_sec=timeout_sec, size=pool_size),
            blocking=open_client(
                address,
                timeout_sec=block_sec + reply_sec,
                wait_sec=timeout_sec,
                size=blocking_pool_size,
            ),
        )

    return Connection(
        str(address), opener, timeout_sec=timeout_sec, cluster=address.kind == CLUSTER
    )


def open_wire(address: Address, *, reply_sec: float, wait_sec: float, size: int) -> Wire | None:
    """The quick way to a single server; a cluster's client must choose the node for each call."""
    client = open_client(address, timeout_sec=reply_sec, wait_sec=wait_sec, size=size, timed=False)
    return Wire(client, reply_sec=reply_sec) if isinstance(client, Redis) else None


def wrap(client: Redis, *, timeout_sec: float = 10) -> Connection:
    """A connection over a client that exists already, such as fakeredis."""
    return Connection("client", lambda: Clients(client, client), timeout_sec=timeout_sec)
