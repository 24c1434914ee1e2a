"""Backends: the embedded Valkey (always), Redis 7, a one-node cluster, and the fake."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import fakeredis
import pytest
from redis import asyncio as aredis

from rqueue.store.connection import Connection
from tests import servers
from tests.house import House, build, opened
from tests.servers import KINDS, Server

TESTS = Path(__file__).parent
# Workers in processes of their own, and what is said by when: a busy machine would tell lies of it.
ALONE = ("test_kinds", "test_process", "test_up", "test_worker", "test_context", "test_watch",
         "test_heart", "test_lines", "test_patience", "test_wide", "test_progress",
         "test_dag_watch", "test_spawn", "test_replicas")  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        default=",".join(KINDS),
        help=f"which servers the `server` fixture goes through, of {','.join(KINDS)}",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_kind" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--servers").split(",")
        unknown = set(wanted) - set(KINDS)
        if unknown:
            raise pytest.UsageError(f"--servers: unknown {', '.join(sorted(unknown))}")
        metafunc.parametrize("server_kind", wanted)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TESTS / "integration") or item.path.name.startswith(ALONE):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[str], Server]]:
    """The server of a kind, started at first use and stopped with the session."""
    # Not tmp_path: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="rqueue-tests-"))
    started: dict[str, Server] = {}

    def get(kind: str) -> Server:
        if kind not in started:
            started[kind] = servers.start(kind, folder / kind)
        return started[kind]

    try:
        yield get
    finally:
        for server in started.values():
            server.stop()
        shutil.rmtree(folder)


def emptied(server: Server) -> Server:
    server.flush()
    return server


@pytest.fixture
def server(running: Callable[[str], Server], server_kind: str) -> Server:
    """Each server in turn, empty."""
    return emptied(running(server_kind))


@pytest.fixture
def valkey(running: Callable[[str], Server]) -> Server:
    """The Valkey of the embedded extra, empty."""
    return emptied(running("valkey"))


@pytest.fixture
def redis7(running: Callable[[str], Server]) -> Server:
    """Debian's Redis 7, empty; skipped where it is not installed, unless required."""
    return emptied(running("redis7"))


@pytest.fixture
def cluster(running: Callable[[str], Server]) -> Server:
    """A cluster of one node, empty."""
    return emptied(running("cluster"))


@pytest.fixture
async def client(server: Server) -> AsyncIterator[aredis.Redis | aredis.RedisCluster]:
    """A plain client of `server`, to look at keys with."""
    client = server.client()
    yield client
    await client.aclose()


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[Connection]:
    """A connection of ours to `server`."""
    connection = server.connection()
    yield connection
    await connection.aclose()


@pytest.fixture
async def house(connection: Connection, client: aredis.Redis) -> AsyncIterator[House]:
    """A queue with all its parts, on each server in turn."""
    house = build(connection, client)
    yield house
    await house.queue.aclose()


@pytest.fixture
async def alone(valkey: Server) -> AsyncIterator[House]:
    """A queue on the embedded Valkey alone, for what does not depend on the kind of server."""
    async with opened(valkey) as house:
        yield house


@pytest.fixture
async def archived_house(connection: Connection, client: aredis.Redis) -> AsyncIterator[House]:
    """The same with an archive: what ends goes through the outbox."""
    house = build(connection, client, archive="postgres")
    yield house
    await house.queue.aclose()


@pytest.fixture
async def fake() -> AsyncIterator[aredis.Redis]:
    """fakeredis with a server of its own: a script that leaks a global would poison the next."""
    client = fakeredis.FakeAsyncRedis(
        server=fakeredis.FakeServer(version=(7,)), version=(7,), protocol=2
    )
    yield client
    await client.aclose()
