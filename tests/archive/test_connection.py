"""Connections to the archive: those that were cut meanwhile are replaced before anybody sees it."""

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
    """The servers' sides of so many connections, all in use at once."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(number):
            connection = await stack.enter_async_context(archive.connection())
            row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
            found.append(row[0] if row else 0)
        return found


async def test_connections_that_were_cut_are_replaced_unseen(pg: Database) -> None:
    archive = Archive(lambda: pg.url)
    try:
        before = await pids(archive, POOL_SIZE)
        assert pg.psql(CUT) == [(True,)] * POOL_SIZE

        after = [*await pids(archive, 1), *await pids(archive, POOL_SIZE)]

        assert not set(before) & set(after)
    finally:
        await archive.aclose()


async def test_a_connection_that_is_whole_is_lent_again(pg: Database) -> None:
    archive = Archive(lambda: pg.url)
    try:
        (first,) = await pids(archive, 1)

        assert [await pids(archive, 1) for _ in range(3)] == [[first]] * 3
    finally:
        await archive.aclose()


async def test_a_call_that_fails_gives_its_connection_back(pg: Database) -> None:
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
