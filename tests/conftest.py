"""Backends: the embedded Valkey, Redis 7, a one-node cluster, the fake; PostgreSQL of two kinds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import fakeredis
import pytest
import redis.utils
from fakeredis._clients._async import FakeAsyncRedisConnection
from redis import asyncio as aredis
from redis.asyncio.connection import AbstractConnection

from rqueue.store.connection import Connection
from tests import postgres as postgres_servers
from tests import servers
from tests.house import House, build, opened
from tests.postgres import Cluster, Database, Disk
from tests.servers import KINDS, Server

TESTS = Path(__file__).parent
# Workers in processes of their own, and what is said by when: a busy machine would tell lies of it.
ALONE = (
    "integration/", "artifacts/test_kinds", "cli/test_dag_watch", "cli/test_process",
    "cli/test_progress", "cli/test_up", "client/test_replicas", "lua/dag/test_wide",
    "services/test_context", "services/test_heart", "services/test_kinds", "services/test_process",
    "services/test_spawn", "services/test_watch", "services/test_worker", "store/test_lines",
    "store/test_patience",
)  # fmt: skip


# The driver reads the metadata of its own package anew for each connection, in 3 ms; here
# thousands are made.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        default=",".join(KINDS),
        help=f"which servers the `server` fixture goes through, of {','.join(KINDS)}",
    )
    parser.addoption(
        "--postgres",
        default=",".join(postgres_servers.KINDS),
        help="which servers the `postgres` fixture goes through, of embedded,debian",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, option, kinds in (
        ("server_kind", "--servers", KINDS),
        ("postgres_kind", "--postgres", postgres_servers.KINDS),
    ):
        if fixture in metafunc.fixturenames:
            wanted = metafunc.config.getoption(option).split(",")
            unknown = set(wanted) - set(kinds)
            if unknown:
                raise pytest.UsageError(f"{option}: unknown {', '.join(sorted(unknown))}")
            metafunc.parametrize(fixture, wanted)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(TESTS).as_posix().startswith(ALONE):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def closed(opened_connections: WeakSet[AbstractConnection]) -> Iterator[None]:
    """No test leaves a connection open: the collector would find it later, and blame another."""
    before = set(opened_connections)
    yield
    left = [one for one in opened_connections - before if one.is_connected]
    assert not left, f"left open: {left}"


@pytest.fixture(scope="session")
def opened_connections() -> Iterator[WeakSet[AbstractConnection]]:
    """Every connection to a server that was made in this session and is still known."""
    made: WeakSet[AbstractConnection] = WeakSet()
    connect: Any = AbstractConnection.connect

    async def noted(self: AbstractConnection) -> None:
        # The fake's has nothing to close.
        if not isinstance(self, FakeAsyncRedisConnection):
            made.add(self)
        await connect(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AbstractConnection, "connect", noted)
        yield made


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


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """Where the session's PostgreSQL servers live; not tmp_path, for short sockets."""
    folder = Path(tempfile.mkdtemp(prefix="rqueue-pg-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def blank(postgres_folder: Path) -> Callable[[str], Path]:
    """The data of an empty PostgreSQL of a kind, made at first use, to be copied."""
    return cache(lambda kind: postgres_servers.blank(kind, postgres_folder / f"{kind}-blank"))


@pytest.fixture(scope="session")
def running_postgres(
    postgres_folder: Path, blank: Callable[[str], Path]
) -> Iterator[Callable[[str], Cluster]]:
    """The PostgreSQL of a kind, started at first use and stopped with the session."""
    started: dict[str, Cluster] = {}

    def get(kind: str) -> Cluster:
        if kind not in started:
            started[kind] = postgres_servers.cluster(kind, postgres_folder / kind, blank(kind))
        return started[kind]

    yield get
    for cluster in started.values():
        cluster.stop()


@pytest.fixture
def postgres(running_postgres: Callable[[str], Cluster], postgres_kind: str) -> Iterator[Database]:
    """An empty database on each PostgreSQL in turn; the server is shared, so not to be stopped."""
    with postgres_servers.database(running_postgres(postgres_kind)) as found:
        yield found


@pytest.fixture
def pg(running_postgres: Callable[[str], Cluster]) -> Iterator[Database]:
    """An empty database on the embedded PostgreSQL, for what does not depend on the kind."""
    with postgres_servers.database(running_postgres("embedded")) as found:
        yield found


@pytest.fixture
def own_pg(postgres_folder: Path, blank: Callable[[str], Path]) -> Iterator[Database]:
    """A PostgreSQL of the test's own: to be stopped, killed, started, set to read-only."""
    folder = Path(tempfile.mkdtemp(prefix="own-", dir=postgres_folder))
    cluster = postgres_servers.cluster("embedded", folder / "pg", blank("embedded"))
    try:
        with postgres_servers.database(cluster) as found:
            yield found
    finally:
        cluster.stop()
        shutil.rmtree(folder)


@pytest.fixture
def full_pg(own_pg: Database, tmp_path: Path) -> Iterator[tuple[Database, Disk]]:
    """A database whose disk is small: `disk.fill()`, and it has no room; `disk.free()` mends it."""
    with (
        postgres_servers.small_disk(tmp_path / "disk") as disk,
        postgres_servers.on_disk(own_pg.cluster, disk) as found,
    ):
        yield found, disk
