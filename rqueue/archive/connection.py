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
# How long a transaction may take that writes a batch. Longer than any that gets on, and shorter
# than the recorder thinks (`metrics.MARGIN`).
WORK_SEC = 120.0
# How long what looks at a large part of the tables may take: there is an index for few of these.
SEARCH_SEC = 600.0


class Archive:
    """The PostgreSQL of an archive. Nothing is sent before the first call.

    `locate` gives its URL, and starts it first where it is our `own`. Pools belong to an event loop
    and a process: each loop has its own, and a fork starts afresh.
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
        """A connection for a call, in a transaction unless one is begun inside. Raises
        StoreUnavailable if the server cannot be reached or does not answer; all errors are those of
        rqueue.
        """
        return self.within(self.timeout_sec)

    @asynccontextmanager
    async def within(self, limit_sec: float | None) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection with this timeout; None for no timeout. After a timeout the outcome is
        unknown, and the connection is not used again.
        """
        pool = await self.pool()
        from rqueue.archive.wire import limited, translated  # noqa: PLC0415 - an extra

        with translated():
            connection = await self.lent(pool)
            try:
                with limited(connection, limit_sec):
                    async with connection:
                        yield connection
            finally:
                await pool.putconn(connection)

    async def lent(self, pool: Pool) -> Wire:
        """A connection of a pool that its server has not cut, for all that is known here.

        The pool's own `check` asks the server each time (0.6 ms on this machine, 4 us for a look at
        the socket; more where it is far away), and waits for seconds between two that are dead.
        That a server has restarted the socket knows; only one that has fallen silent is found by
        the call itself, when its time is over. So cheap, it need not spare the archiver.
        """
        for _ in range(POOL_SIZE):
            connection = await pool.getconn(self.timeout_sec)
            if not is_cut(connection):
                return connection
            await connection.close()
            await pool.putconn(connection)
        return await pool.getconn(self.timeout_sec)

    async def pool(self) -> Pool:
        """The pool of the running loop."""
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
        """A new pool; raises ConfigError for an invalid URL."""
        try:
            from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415 - an extra

            from rqueue.archive.wire import check  # noqa: PLC0415
        except ImportError as error:
            rule = "needs psycopg: pip install 'rqueue[archive]'"
            raise ConfigError("archive", rule) from error
        from rqueue.archive.wire import Wire, probing  # noqa: PLC0415 - an extra

        check(url)
        wait = max(1, round(self.timeout_sec))
        return AsyncConnectionPool(
            url,
            connection_class=Wire,
            min_size=0,
            max_size=POOL_SIZE,
            open=False,
            timeout=self.timeout_sec,
            # No thread keeps trying behind our back: who asks tries.
            reconnect_timeout=self.timeout_sec,
            kwargs={"connect_timeout": wait, "application_name": "rqueue", **probing(url)},
        )

    async def aclose(self) -> None:
        """Closes this loop's connections; a later call opens them again."""
        if self.pid != os.getpid():
            return
        found = self.pools.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.close()


def is_cut(connection: AsyncConnection[Any]) -> bool:
    """Whether the server has closed the connection or has sent unexpected data."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
