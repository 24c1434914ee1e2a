"""Reads that block at the server: each on a connection of its own, none leaked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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


async def blocked(connection: Connection, count: int) -> None:
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


async def test_reads_that_wait_do_not_wait_for_each_other(valkey: Server) -> None:
    async with connected(valkey) as (connection, _):
        first = asyncio.create_task(connection.wait(("BLPOP", "one", 30), 30, what="mail"))
        second = asyncio.create_task(connection.wait(("BLPOP", "two", 30), 30, what="mail"))
        await blocked(connection, 2)

        await connection.client.rpush("two", "mail")

        assert (await second)[1] == b"mail"
        assert not first.done()
        first.cancel()


async def test_a_cancelled_read_leaves_the_server_and_takes_nothing(valkey: Server) -> None:
    async with connected(valkey) as (connection, blocking_reads):
        reading = asyncio.create_task(connection.wait(("BLPOP", "box", 30), 30, what="mail"))
        await blocked(connection, 1)

        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await blocked(connection, 0)
        await connection.client.rpush("box", "kept")

        assert reading.cancelled()
        assert not blocking_reads.idle
        assert (await connection.wait(("BLPOP", "box", 5), 5, what="mail"))[1] == b"kept"


async def test_a_read_whose_connection_is_killed_is_our_error(valkey: Server) -> None:
    async with connected(valkey) as (connection, blocking_reads):
        reading = asyncio.create_task(connection.wait(NOTHING, 30, what="mail"))
        await blocked(connection, 1)

        found = await connection.client.client_list()
        (waiting,) = [one["id"] for one in found if "b" in one["flags"]]
        await connection.client.client_kill_filter(_id=waiting)

        with pytest.raises(StoreUnavailable):
            await reading
        assert not blocking_reads.idle
