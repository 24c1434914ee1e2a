"""Connections to the archive: closed ones are replaced before they are used."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from rqueue.archive.connection import POOL_SIZE, Archive
from rqueue.errors import StoreUnavailable
from tests.postgres import Database

CUT = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = 'rqueue' AND datname = current_database()
"""


async def pids(archive: Archive, number: int) -> list[int]:
    """Returns the backend ids of several connections that are in use concurrently."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(number):
            connection = await stack.enter_async_context(archive.connection())
            row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
            found.append(row[0] if row else 0)
        return found


async def test_closed_connections_are_replaced(pg: Database) -> None:
    archive = Archive(lambda: pg.url)
    try:
        before = await pids(archive, POOL_SIZE)
        assert pg.psql(CUT) == [(True,)] * POOL_SIZE

        after = [*await pids(archive, 1), *await pids(archive, POOL_SIZE)]

        assert not set(before) & set(after)
    finally:
        await archive.aclose()


async def test_an_open_connection_is_reused(pg: Database) -> None:
    archive = Archive(lambda: pg.url)
    try:
        (first,) = await pids(archive, 1)

        assert [await pids(archive, 1) for _ in range(3)] == [[first]] * 3
    finally:
        await archive.aclose()


async def test_a_failed_call_returns_its_connection_to_the_pool(pg: Database) -> None:
    archive = Archive(lambda: pg.url, timeout_sec=1)
    try:
        for _ in range(POOL_SIZE + 1):
            with pytest.raises(StoreUnavailable, match="DivisionByZero"):
                async with archive.connection() as connection:
                    await connection.execute("SELECT 1 / 0")
        for _ in range(POOL_SIZE + 1):
            with pytest.raises(asyncio.CancelledError):
                async with archive.connection() as connection:
                    raise asyncio.CancelledError

        assert len(set(await pids(archive, POOL_SIZE))) == POOL_SIZE
    finally:
        await archive.aclose()
