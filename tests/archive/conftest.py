"""Fixtures: a queue with its archive, or an archive alone, on one or each PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.archive.archiver_harness import ArchiverHarness, archiver_harness
from tests.archive.tables import ArchiveTables, opened
from tests.postgres import Cluster, Database, database
from tests.servers import Server


@pytest.fixture(scope="session")
def prepared(running_postgres: Callable[[str], Cluster]) -> Iterator[Callable[[str], Database]]:
    """Returns a database with the tables of the archive on a kind of PostgreSQL. It is used as a
    template, because copying is faster than migrating.
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
    """An empty archive on each PostgreSQL in turn; the server is shared."""
    like = prepared(postgres_kind)
    with database(like.cluster, like=like) as found:
        yield found


@pytest.fixture
def pg(prepared: Callable[[str], Database]) -> Iterator[Database]:
    """An empty archive on the embedded PostgreSQL."""
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
async def env(valkey: Server, postgres: Database) -> AsyncIterator[ArchiverHarness]:
    """A queue with an archiver on the embedded Valkey and each PostgreSQL in turn."""
    async with archiver_harness(valkey, postgres) as found:
        yield found


@pytest.fixture
async def pg_env(valkey: Server, pg: Database) -> AsyncIterator[ArchiverHarness]:
    """A queue with an archiver on the embedded servers."""
    async with archiver_harness(valkey, pg) as found:
        yield found


@pytest.fixture
async def tables(postgres: Database) -> AsyncIterator[ArchiveTables]:
    """The tables of an archive without a queue, on each PostgreSQL in turn."""
    async with opened(postgres) as found:
        yield found


@pytest.fixture
async def archived(valkey: Server, postgres: Database) -> AsyncIterator[ArchivedHarness]:
    """A queue with its archive, on each PostgreSQL in turn."""
    async with archived_harness(valkey, postgres) as found:
        yield found
