"""Reads that block at the server: each on a connection of its own, none leaked, each ended by a
cancel.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from rqueue.errors import StoreUnavailable
from rqueue.store.connection import Connection, connect
from rqueue.store.pool import BlockingConnections
from tests.queue.until import until
from tests.servers import Server

NOTHING = ("BLPOP", "nothing", 30)


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[tuple[Connection, BlockingConnections]]:
    connection = connect(server.url, timeout_sec=4)
    blocking_reads = connection.clients().blocking_reads
    assert blocking_reads is not None
    yield connection, blocking_reads
    await connection.aclose()


async def until_blocked(connection: Connection, count: int) -> None:
    """Returns when so many clients block at the server."""

    async def found() -> bool:
        return bool((await connection.client.info("clients"))["blocked_clients"] == count)

    await until(found)


async def test_a_connection_is_kept_for_the_next_read(valkey: Server) -> None:
    async with connected(valkey) as (connection, blocking_reads):
        await connection.client.rpush("box", "one", "two")

        first = await connection.wait(("BLPOP", "box", 5), 5, what="mail")
        second = await connection.wait(("BLPOP", "box", 5), 5, what="mail")

        assert (first[1], second[1]) == (b"one", b"two")
        assert (len(blocking_reads.idle), len(blocking_reads.broken)) == (1, 0)


async def test_blocking_reads_do_not_wait_for_each_other(valkey: Server) -> None:
    async with connected(valkey) as (connection, _):
        first = asyncio.create_task(connection.wait(("BLPOP", "one", 30), 30, what="mail"))
        second = asyncio.create_task(connection.wait(("BLPOP", "two", 30), 30, what="mail"))
        await until_blocked(connection, 2)

        await connection.client.rpush("two", "mail")

        assert (await second)[1] == b"mail"
        assert not first.done()
        first.cancel()


async def test_a_cancelled_read_ends_at_the_server_and_takes_no_delivery(valkey: Server) -> None:
    async with connected(valkey) as (connection, blocking_reads):
        reading = asyncio.create_task(connection.wait(("BLPOP", "box", 30), 30, what="mail"))
        await until_blocked(connection, 1)

        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await until_blocked(connection, 0)
        await connection.client.rpush("box", "kept")

        assert reading.cancelled()
        assert not blocking_reads.idle
        assert (await connection.wait(("BLPOP", "box", 5), 5, what="mail"))[1] == b"kept"


async def test_a_read_whose_connection_is_killed_raises_store_unavailable(valkey: Server) -> None:
    async with connected(valkey) as (connection, blocking_reads):
        reading = asyncio.create_task(connection.wait(NOTHING, 30, what="mail"))
        await until_blocked(connection, 1)

        found = await connection.client.client_list()
        (waiting,) = [one["id"] for one in found if "b" in one["flags"]]
        await connection.client.client_kill_filter(_id=waiting)

        with pytest.raises(StoreUnavailable):
            await reading
        assert not blocking_reads.idle


class SwallowingPool:
    """A pool that returns a connection in spite of a cancel, as wait_for before Python 3.12 may."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()

    async def get_connection(self) -> Any:
        self.requested.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            transport = Mock(is_closing=Mock(return_value=False))
            return SimpleNamespace(_writer=SimpleNamespace(transport=transport))


async def test_a_cancel_that_the_driver_swallowed_ends_the_read() -> None:
    pool = SwallowingPool()
    client: Any = SimpleNamespace(connection_pool=pool)
    blocking_reads = BlockingConnections(client, reply_sec=60)
    reading = asyncio.create_task(blocking_reads.execute(("BLPOP", "a", 60), 60))
    await pool.requested.wait()

    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading, 5)
    assert len(blocking_reads.idle) == 1
