"""The Valkey of a test process, and the connection of each tested queue to it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue import embedded
from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.store.connection import Connection, connect
from rqueue.store.library import clocked_library
from rqueue.store.runner import Reply, Runner
from rqueue.sync import LoopThread
from rqueue.testing.timeline import CLOCK

if TYPE_CHECKING:
    from rqueue.store.connection import Client
    from rqueue.store.library import Argument, Move
    from rqueue.testing.timeline import ManualClock

T = TypeVar("T")

# How many queues one process may test at the same time.
MAX_DATABASES = 256


class Databases:
    """The databases of one server, which is started at the first use and ends with the process.
    Each tested queue has one for itself.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets the server: a forked child starts its own."""
        self.guard = threading.Lock()
        self.server = ""
        self.free = list(range(MAX_DATABASES))
        heapify(self.free)

    def take(self) -> tuple[str, int]:
        """Reserves an empty database; returns its URL, and its number for `release`."""
        with self.guard:
            if not self.server:
                self.server = embedded.start_temporary(databases=MAX_DATABASES)
            if not self.free:
                raise RQueueError(f"{MAX_DATABASES} queues are being tested already")
            number = heappop(self.free)
        return f"{self.server}?db={number}", number

    def release(self, number: int) -> None:
        """Makes a database, which must be empty, available to another queue."""
        with self.guard:
            heappush(self.free, number)


DATABASES = Databases()
THREAD = LoopThread("rqueue-testing")
os.register_at_fork(after_in_child=DATABASES.reset)
os.register_at_fork(after_in_child=THREAD.reset)


class ThreadConnection(Connection):
    """Runs all calls on the event loop of one thread, whatever loop or thread they come from.

    So a test can read the queue without awaiting, and its own event loops have no open sockets:
    `close` closes them all.
    """

    def __init__(self, url: str, clock: ManualClock, *, timeout_sec: float) -> None:
        opened = connect(url, timeout_sec=timeout_sec)
        super().__init__(opened.address, opened.opener, timeout_sec=timeout_sec)
        self.clock = clock
        self.closed = False

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the thread's loop and returns its result. Raises StoreUnavailable
        after `close`.
        """
        if self.closed:
            work.close()
            raise StoreUnavailable("the test of this queue has ended")
        loop = THREAD.started()
        if asyncio.get_running_loop() is loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    async def call(
        self,
        send: Callable[[Any], Awaitable[T]],
        *,
        what: str = "redis",
        timeout_sec: float | None = None,
    ) -> T:
        """`Connection.call` with a client that has the time of the test."""

        def clocked(client: Client) -> Awaitable[T]:
            return send(Clocked(client, self.clock))

        return await self.through(super().call(clocked, what=what, timeout_sec=timeout_sec))

    async def execute(self, commands: Iterable[Sequence[Argument]], *, what: str) -> list[Any]:
        """`Connection.execute`; the commands are built before another thread sends them."""
        return await self.through(super().execute(list(commands), what=what))

    async def execute_together(
        self, commands: Sequence[Sequence[Argument]], *, what: str
    ) -> list[Any]:
        """`Connection.execute_together` on the thread."""
        return await self.through(super().execute_together(commands, what=what))

    async def execute_one(self, words: Sequence[Argument], *, what: str) -> Any:
        """`Connection.execute_one` on the thread."""
        return await self.through(super().execute_one(words, what=what))

    async def wait(self, words: Sequence[Argument], wait_sec: float, *, what: str) -> Any:
        """`Connection.wait` on the thread."""
        return await self.through(super().wait(words, wait_sec, what=what))

    async def aclose(self) -> None:
        """Does nothing: no socket belongs to the running loop."""

    def close(self) -> None:
        """Empties the database and closes all sockets; later calls raise StoreUnavailable."""

        async def end() -> None:
            await self.call(lambda client: client.flushdb(), what="FLUSHDB")
            self.closed = True
            await super(ThreadConnection, self).aclose()

        THREAD.run(end())


class Clocked:
    """A client whose TIME is the time of the test."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self.client = client
        self.clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def time(self) -> tuple[int, int]:
        """Returns the time of the test in seconds and microseconds."""
        seconds, ms = divmod(self.clock.now_ms(), 1000)
        return seconds, ms * 1000


class ClockedRunner(Runner):
    """Runs the moves of the library with the clock of the test."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, clocked_library(CLOCK))
        # The server ends with its process, so its libraries need no record of their use.
        self.recorded = inf

    async def run_replicated(self, move: Move, words: Sequence[Argument], replicas: int) -> Reply:
        """Runs a move as if `replicas` had confirmed it."""
        return await self.run_words(move.name, words)
