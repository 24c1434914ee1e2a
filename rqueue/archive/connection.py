"""The connection to the archive: one pool per event loop, opened at the first use."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from rqueue.archive.wire import Wire

    Pool = AsyncConnectionPool[Wire]

POOL_SIZE = 4
# Timeout of a call, both for a connection and for the answer of PostgreSQL.
CONNECT_SEC = 5.0
# Timeout of a transaction that writes a batch. Longer than any that makes progress, and shorter
# than the recorder assumes (`metrics.MARGIN`).
WORK_SEC = 120.0
# Timeout of a statement that reads a large part of the tables: few of these use an index.
SEARCH_SEC = 600.0


class Archive:
    """The PostgreSQL server of an archive. It is not contacted before the first call.

    `locate` returns the URL; if the server is embedded (`own`), it starts the server first. Each
    event loop has its own connection pool, and a forked process starts without pools.
    """

    def __init__(
        self,
        locate: Callable[[], str],
        *,
        own: bool = False,
        timeout_sec: float = CONNECT_SEC,
        work_sec: float = WORK_SEC,
    ) -> None:
        self.locate = locate
        self.own = own
        self.timeout_sec = timeout_sec
        self.work_sec = work_sec
        self.pid = os.getpid()
        self.pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return "Archive()"

    def connection(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """Returns a context manager of a connection with the default timeout, in a transaction
        unless the caller begins one. Raises StoreUnavailable if the server cannot be reached or
        does not answer; all errors are RQueueErrors.
        """
        return self.within(self.timeout_sec)

    @asynccontextmanager
    async def within(self, limit_sec: float | None) -> AsyncIterator[AsyncConnection[Any]]:
        """Yields a connection with this timeout; None for no timeout. After a timeout the outcome
        is unknown, and the connection is not used again.
        """
        pool = await self.pool()
        from rqueue.archive.wire import limited, translated  # noqa: PLC0415 - an extra

        with translated():
            connection = await self.borrowed(pool)
            try:
                with limited(connection, limit_sec):
                    async with connection:
                        yield connection
            finally:
                await pool.putconn(connection)

    async def borrowed(self, pool: Pool) -> Wire:
        """Returns a connection of the pool that the server has not closed, as far as the socket
        shows.

        The pool's own `check` makes a round trip to the server each time (0.6 ms measured on one
        machine, 4 us for a check of the socket), and waits for seconds between two dead
        connections. The socket shows that a server has restarted. A server that no longer answers
        is detected by the timeout of the call. The check is cheap enough for the archiver too.
        """
        for _ in range(POOL_SIZE):
            connection = await pool.getconn(self.timeout_sec)
            if not is_broken(connection):
                return connection
            await connection.close()
            await pool.putconn(connection)
        return await pool.getconn(self.timeout_sec)

    async def pool(self) -> Pool:
        """Returns the pool of the running event loop; opens it at the first call."""
        if self.pid != os.getpid():
            self.pid, self.pools = os.getpid(), WeakKeyDictionary()
        loop = asyncio.get_running_loop()
        found = self.pools.get(loop)
        if found is None:
            # An embedded server may take seconds to start.
            url = await asyncio.to_thread(self.locate)
            found = self.pools.get(loop) or self.opened(url)
            self.pools[loop] = found
            await found.open()
        return found

    def opened(self, url: str) -> Pool:
        """Returns a new pool. Raises ConfigError for an invalid URL or if psycopg is missing."""
        try:
            from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415 - an extra

            from rqueue.archive.wire import check  # noqa: PLC0415
        except ImportError as error:
            rule = "needs psycopg: pip install 'rqueue[archive]'"
            raise ConfigError("archive", rule) from error
        from rqueue.archive.wire import Wire, probe_options  # noqa: PLC0415 - an extra

        check(url)
        wait = max(1, round(self.timeout_sec))
        return AsyncConnectionPool(
            url,
            connection_class=Wire,
            min_size=0,
            max_size=POOL_SIZE,
            open=False,
            timeout=self.timeout_sec,
            # The pool does not reconnect in the background for longer than a call may take.
            reconnect_timeout=self.timeout_sec,
            kwargs={"connect_timeout": wait, "application_name": "rqueue", **probe_options(url)},
        )

    async def aclose(self) -> None:
        """Closes this loop's connections; a later call opens them again."""
        if self.pid != os.getpid():
            return
        found = self.pools.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.close()


def is_broken(connection: AsyncConnection[Any]) -> bool:
    """Returns whether the server has closed the connection or has sent unexpected data."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
