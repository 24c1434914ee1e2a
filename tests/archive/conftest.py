"""A queue with its archive, or an archive alone, on each PostgreSQL in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.archive.archived_harness import ArchivedHarness, housed
from tests.archive.kept import Kept, opened
from tests.archive.library import Library, library
from tests.postgres import Cluster, Database, database
from tests.servers import Server


@pytest.fixture(scope="session")
def prepared(running_postgres: Callable[[str], Cluster]) -> Iterator[Callable[[str], Database]]:
    """A database with the tables of the archive on the PostgreSQL of a kind: to be copied, which
    takes less time than to make it anew.
    """
    made: dict[str, Database] = {}
    with ExitStack() as stack:

        def get(kind: str) -> Database:
            if kind not in made:
                found = stack.enter_context(database(running_postgres(kind)))
                asyncio.run(migrated(found))
                made[kind] = found
            return made[kind]

        yield get


async def migrated(found: Database) -> None:
    async with opened(found):
        pass


@pytest.fixture
def postgres(prepared: Callable[[str], Database], postgres_kind: str) -> Iterator[Database]:
    """An archive with nothing in it on each PostgreSQL in turn; the server is shared."""
    like = prepared(postgres_kind)
    with database(like.cluster, like=like) as found:
        yield found


@pytest.fixture
def pg(prepared: Callable[[str], Database]) -> Iterator[Database]:
    """An archive with nothing in it on the embedded PostgreSQL."""
    like = prepared("embedded")
    with database(like.cluster, like=like) as found:
        yield found


@pytest.fixture
def bare_postgres(
    running_postgres: Callable[[str], Cluster], postgres_kind: str
) -> Iterator[Database]:
    """A database without tables on each PostgreSQL in turn."""
    with database(running_postgres(postgres_kind)) as found:
        yield found


@pytest.fixture
def bare_pg(running_postgres: Callable[[str], Cluster]) -> Iterator[Database]:
    """A database without tables on the embedded PostgreSQL."""
    with database(running_postgres("embedded")) as found:
        yield found


@pytest.fixture
async def shelves(valkey: Server, postgres: Database) -> AsyncIterator[Library]:
    """A library on the embedded Valkey and each PostgreSQL in turn."""
    async with library(valkey, postgres) as found:
        yield found


@pytest.fixture
async def shelf(valkey: Server, pg: Database) -> AsyncIterator[Library]:
    """A library on the embedded servers, for what does not depend on their kinds."""
    async with library(valkey, pg) as found:
        yield found


@pytest.fixture
async def kept(postgres: Database) -> AsyncIterator[Kept]:
    """An archive with its tables and no queue, on each kind of PostgreSQL."""
    async with opened(postgres) as found:
        yield found


@pytest.fixture
async def home(valkey: Server, postgres: Database) -> AsyncIterator[ArchivedHarness]:
    """A queue that is run by hand, with its archive, on each kind of PostgreSQL."""
    async with housed(valkey, postgres) as found:
        yield found
