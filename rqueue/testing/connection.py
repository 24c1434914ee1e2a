"""How a queue in a test speaks with its server, and the library with the clock of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.errors import StoreUnavailable
from rqueue.store.connection import Connection, connect
from rqueue.store.library import clocked_library
from rqueue.store.runner import Reply, Runner
from rqueue.testing.server import THREAD

if TYPE_CHECKING:
    from rqueue.store.connection import Client
    from rqueue.store.library import Argument, Move
    from rqueue.testing.clock import ManualClock

T = TypeVar("T")

CLOCK = Path(__file__).with_name("clock.lua").read_text(encoding="utf-8")


class ThreadConnection(Connection):
    """All calls go through the event loop of one thread, from whatever loop or thread they come.

    So what looks at the queue need not be awaited, and no event loop of a test is left with open
    sockets: `close` closes them all.
    """

    def __init__(self, url: str, clock: ManualClock, *, timeout_sec: float) -> None:
        opened = connect(url, timeout_sec=timeout_sec)
        super().__init__(opened.address, opened.opener, timeout_sec=timeout_sec)
        self.clock = clock
        self.closed = False

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives that runs on the thread's loop."""
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
        """`Connection.call` with a client that knows the clock."""

        def clocked(client: Client) -> Awaitable[T]:
            return send(Clocked(client, self.clock))

        return await self.through(super().call(clocked, what=what, timeout_sec=timeout_sec))

    async def execute(self, commands: Iterable[Sequence[Argument]], *, what: str) -> list[Any]:
        """`Connection.ask`; the commands are made before another thread sends them."""
        return await self.through(super().execute(list(commands), what=what))

    async def execute_together(
        self, commands: Sequence[Sequence[Argument]], *, what: str
    ) -> list[Any]:
        """`Connection.ask_together` on the thread."""
        return await self.through(super().execute_together(commands, what=what))

    async def execute_one(self, words: Sequence[Argument], *, what: str) -> Any:
        """`Connection.ask_one` on the thread."""
        return await self.through(super().execute_one(words, what=what))

    async def wait(self, words: Sequence[Argument], wait_sec: float, *, what: str) -> Any:
        """`Connection.wait` on the thread."""
        return await self.through(super().wait(words, wait_sec, what=what))

    async def aclose(self) -> None:
        """Nothing belongs to the running loop."""

    def close(self) -> None:
        """Empties the database and closes all sockets; every later call raises StoreUnavailable."""

        async def end() -> None:
            await self.call(lambda client: client.flushdb(), what="FLUSHDB")
            self.closed = True
            await super(ThreadConnection, self).aclose()

        THREAD.run(end())


class Clocked:
    """A client whose server has the time of the test."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self.client = client
        self.clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def time(self) -> tuple[int, int]:
        """The clock in seconds and microseconds."""
        seconds, ms = divmod(self.clock.now_ms(), 1000)
        return seconds, ms * 1000


class ClockedRunner(Runner):
    """The moves as they are, at the time of the test."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, clocked_library(CLOCK))
        # Nobody prunes the libraries of a server that ends with its process.
        self.recorded = inf

    async def run_replicated(self, move: Move, words: Sequence[Argument], replicas: int) -> Reply:
        """As if there were as many replicas as are asked for."""
        return await self.run_words(move.name, words)
