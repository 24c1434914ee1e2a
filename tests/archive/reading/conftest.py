"""Libraries: a queue with its archive, on each kind of PostgreSQL or on one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.archive.reading.library import Library, founded
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def library(valkey: Server, postgres: Database) -> AsyncIterator[Library]:
    """A queue whose archive is on each PostgreSQL in turn."""
    async with founded(valkey, postgres) as found:
        yield found


@pytest.fixture
async def one_library(valkey: Server, pg: Database) -> AsyncIterator[Library]:
    """A queue whose archive is on the embedded PostgreSQL, for what does not depend on the kind."""
    async with founded(valkey, pg) as found:
        yield found
