"""The connection to one Redis: clients per process and event loop, and calls that are re-sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from redis.asyncio import RedisCluster

from rqueue.errors import ConfigError, RQueueError, StoreUnavailable
from rqueue.store.errors import DRIVER_ERRORS, translate
from rqueue.store.pool import Clients, cancels_so_far, check_cancelled, open_clients
from rqueue.store.url import CLUSTER, Client, parse

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from rqueue.store.library import Argument


__all__ = ["Client", "Connection", "ServerInfo", "connect", "translate", "wrap"]
T = TypeVar("T")
POOL_SIZE = 32
BLOCKING_POOL_SIZE = 256
BLOCK_SEC = 5.0
FIRST_PAUSE_SEC = 0.02
LONGEST_PAUSE_SEC = 1.0
OLDEST: Final = (7, 0)


class Connection:
    """The connection of this process to one server.

    Clients belong to an event loop and a process: each loop has its own, and a fork opens new ones
    without touching the sockets of the process it came from.
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
        """The client for calls that answer immediately."""
        return self.clients().main

    def clients(self) -> Clients:
        """This loop's clients, opened at first use."""
        if self.pid != os.getpid():
            # Kept, not dropped: their destructors would write to sockets that the forking process
            # uses.
            ABANDONED.append(self.loops)
            self.loops = WeakKeyDictionary()
            self.pid = os.getpid()
        loop = asyncio.get_running_loop()
        found = self.loops.get(loop)
        if found is None:
            # A loop that was closed without closing its clients is kept alive by them: drop both.
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
        """The result of `send`, which is repeated until its time is used up.

        `send` must be safe to repeat. Raises StoreUnavailable when the time is up; raises only
        errors of rqueue.
        """
        return await self.until_answered(lambda: send(self.client), what, timeout_sec)

    async def execute(self, commands: Iterable[Sequence[Argument]], *, what: str) -> list[Any]:
        """The replies to commands, repeated together as `call` does; the fast path for moves.

        `commands` is iterated over again for each try.
        """
        return await self.send_once(lambda: self.clients().execute(commands), what)

    async def execute_together(
        self, commands: Sequence[Sequence[Argument]], *, what: str
    ) -> list[Any]:
        """`execute` for many small reads that are sent in one write. Not for a cluster."""
        return await self.send_once(lambda: self.clients().execute_together(commands), what)

    async def execute_one(self, words: Sequence[Argument], *, what: str) -> Any:
        """`execute` for one command, with less overhead: most calls are such."""
        wire = self.clients().wire
        if wire is None:
            return await self.send_once(lambda: self.clients().execute_one(words), what)
        began = monotonic()
        try:
            return await wire.execute_one(words)
        except DRIVER_ERRORS as error:
            left = self.time_left(error, began, what)
        return await self.until_answered(lambda: self.clients().execute_one(words), what, left)

    async def wait(self, words: Sequence[Argument], wait_sec: float, *, what: str) -> Any:
        """The reply to a read that may block at the server for `wait_sec`. Not repeated: what a
        lost reply contained is gone, so the caller must read again what it waits for.
        """
        try:
            return await self.clients().wait(words, wait_sec)
        except DRIVER_ERRORS as error:
            raise translate(error, what) from error

    async def send_once(self, send: Callable[[], Awaitable[T]], what: str) -> T:
        """The result of `send`; goes through `until_answered` only where the server is
        unavailable.
        """
        if self.cluster:
            # A cluster client bounds each of its steps; a wire bounds a whole try by this time.
            return await self.until_answered(send, what, None)
        began = monotonic()
        try:
            return await send()
        except DRIVER_ERRORS as error:
            left = self.time_left(error, began, what)
        return await self.until_answered(send, what, left)

    def time_left(self, error: BaseException, began: float, what: str) -> float:
        """For how long a failed call may be retried; raises its error where it may not."""
        fault = translate(error, f"{self.address} {what}")
        left = began + self.timeout_sec - monotonic()
        if not isinstance(fault, StoreUnavailable) or left <= 0:
            raise fault from error
        return left

    async def until_answered(
        self, send: Callable[[], Awaitable[T]], what: str, timeout_sec: float | None
    ) -> T:
        """The result of `send`, retried until the time is up; a try in progress is then
        cancelled.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + (self.timeout_sec if timeout_sec is None else timeout_sec)
        pause, cancels = FIRST_PAUSE_SEC, cancels_so_far()
        # The error to raise when the time is up in the middle of a try: the one before it.
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
        """Reads what the server is; raises ConfigError for one that is too old."""
        facts = await self.call(fetch_info, what="INFO")
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


# Clients that were opened before a fork, see Connection.clients.
ABANDONED: list[object] = []


def connect(
    url: str,
    *,
    timeout_sec: float = 10,
    block_sec: float = BLOCK_SEC,
    pool_size: int = POOL_SIZE,
    blocking_pool_size: int = BLOCKING_POOL_SIZE,
) -> Connection:
    """A connection to the server of a URL; nothing is sent yet.

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
    """A connection over an existing client, such as fakeredis."""
    return Connection("client", lambda: Clients(client, client), timeout_sec=timeout_sec)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The facts about the server that INFO returns."""

    name: str
    version: tuple[int, int]
    run_id: str
    cluster: bool


async def fetch_info(client: Client) -> dict[str, Any]:
    """INFO, from one node of a cluster or from the server."""
    if isinstance(client, RedisCluster):
        answer = await client.info(target_nodes=RedisCluster.DEFAULT_NODE)
    else:
        answer = await client.info()
    return dict(answer)


def read_info(facts: dict[str, Any]) -> ServerInfo:
    """The facts that rqueue uses, from INFO."""
    name = str(facts.get("server_name", "redis")).lower()
    text = facts.get("valkey_version") or facts.get("redis_version") or "0.0"
    major, minor = (int(number) for number in str(text).split(".")[:2])
    return ServerInfo(
        name=name,
        version=(major, minor),
        run_id=str(facts.get("run_id", "")),
        cluster=bool(facts.get("cluster_enabled", 0)),
    )
