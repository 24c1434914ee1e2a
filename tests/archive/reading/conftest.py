"""Fixtures: a queue with its archive, on one or each PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def env(valkey: Server, postgres: Database) -> AsyncIterator[ReaderHarness]:
    """A queue whose archive is on each PostgreSQL in turn."""
    async with reader_harness(valkey, postgres) as found:
        yield found


@pytest.fixture
async def pg_env(valkey: Server, pg: Database) -> AsyncIterator[ReaderHarness]:
    """A queue whose archive is on the embedded PostgreSQL."""
    async with reader_harness(valkey, pg) as found:
        yield found
