"""Backends: the embedded Valkey, Redis 7, a one-node cluster, fakeredis; two kinds of
PostgreSQL.
"""

from __future__ import annotations

import gc
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import fakeredis
import pytest
import redis.utils
from fakeredis._clients._async import FakeAsyncRedisConnection
from hypothesis import settings
from redis import asyncio as aredis
from redis.asyncio.connection import AbstractConnection

from rqueue.store.connection import Connection
from tests import postgres as postgres_servers
from tests import servers
from tests.harness import Harness, build, opened
from tests.monitored import Watch
from tests.move_coverage import MoveCoverage, tests_a_move
from tests.postgres import Cluster, Database, Disk
from tests.servers import KINDS, Server

# Property tests have no deadlines, so that a busy machine does not fail them.
settings.register_profile("steady", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("steady")
# The driver reads its own package metadata for each connection, in 3 ms; the tests open thousands.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)


def pytest_configure(config: pytest.Config) -> None:
    # The parent process may ignore SIGINT, as shells do for background jobs; processes of the tests
    # would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--every-move"):
        config.pluginmanager.register(MoveCoverage())
    config.pluginmanager.register(Watch(whole=config.getoption("--every-move")), "watch")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        help=f"which servers the `server` fixture goes through, of {','.join(KINDS)}; by default "
        "the first, and all where a single move is tested",
    )
    parser.addoption(
        "--postgres",
        help="which servers the `postgres` fixture goes through, of embedded,debian; by default "
        "the first",
    )
    parser.addoption(
        "--every-move",
        action="store_true",
        help="fail if a move was not called on each kind of server that is here",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    # A report parses source. Before Python 3.11.8 ast.parse raises SystemError if the garbage
    # collector runs meanwhile and a finalizer parses too, as the traceback of its error does: an
    # internal error of pytest, which ends the run.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    of_a_move = tests_a_move(metafunc.definition.path)
    for fixture, option, kinds, usual in (
        ("server_kind", "--servers", KINDS, KINDS if of_a_move else KINDS[:1]),
        ("postgres_kind", "--postgres", postgres_servers.KINDS, postgres_servers.KINDS[:1]),
    ):
        if fixture in metafunc.fixturenames:
            chosen = metafunc.config.getoption(option)
            wanted = chosen.split(",") if chosen else usual
            unknown = set(wanted) - set(kinds)
            if unknown:
                raise pytest.UsageError(f"{option}: unknown {', '.join(sorted(unknown))}")
            metafunc.parametrize(fixture, wanted)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def closed(opened_connections: WeakSet[AbstractConnection]) -> Iterator[None]:
    """Fails a test that leaves a connection open: the garbage collector would report it in another
    test.
    """
    before = set(opened_connections)
    yield
    left = [one for one in opened_connections - before if one.is_connected]
    assert not left, f"left open: {left}"


@pytest.fixture(scope="session")
def opened_connections() -> Iterator[WeakSet[AbstractConnection]]:
    """Every connection of this session that still exists."""
    made: WeakSet[AbstractConnection] = WeakSet()
    connect: Any = AbstractConnection.connect

    async def noted(self: AbstractConnection) -> None:
        # A fakeredis connection has nothing to close.
        if not isinstance(self, FakeAsyncRedisConnection):
            made.add(self)
        await connect(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AbstractConnection, "connect", noted)
        yield made


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[str], Server]]:
    """The server of a kind, started at its first use and stopped at the end of the session."""
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
    """A plain client of `server`, to read keys."""
    client = server.client()
    yield client
    await client.aclose()


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[Connection]:
    """An rqueue connection to `server`."""
    connection = server.connection()
    yield connection
    await connection.aclose()


@pytest.fixture
async def harness(connection: Connection, client: aredis.Redis) -> AsyncIterator[Harness]:
    """A queue with all its parts, on each server in turn."""
    harness = build(connection, client)
    yield harness
    await harness.queue.aclose()


@pytest.fixture
async def alone(valkey: Server) -> AsyncIterator[Harness]:
    """A queue on the embedded Valkey only, for tests that do not depend on the kind of server."""
    async with opened(valkey) as harness:
        yield harness


@pytest.fixture
async def small(valkey: Server) -> AsyncIterator[Harness]:
    """A queue on the embedded Valkey only, with a low limit for payloads."""
    async with opened(valkey, max_payload_bytes=1024) as harness:
        yield harness


@pytest.fixture
async def archived_harness(connection: Connection, client: aredis.Redis) -> AsyncIterator[Harness]:
    """The same with an archive: ended tasks go through the outbox."""
    harness = build(connection, client, archive="postgres")
    yield harness
    await harness.queue.aclose()


@pytest.fixture
async def fake() -> AsyncIterator[aredis.Redis]:
    """fakeredis with its own server: a move that leaks a global would affect the next one."""
    client = fakeredis.FakeAsyncRedis(
        server=fakeredis.FakeServer(version=(7,)), version=(7,), protocol=2
    )
    yield client
    await client.aclose()


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """The folder of the session's PostgreSQL servers; not tmp_path, because socket paths must be
    short.
    """
    folder = Path(tempfile.mkdtemp(prefix="rqueue-pg-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def blank(postgres_folder: Path) -> Callable[[str], Path]:
    """The data of an empty PostgreSQL of a kind, created at its first use, to be copied."""
    return cache(lambda kind: postgres_servers.blank(kind, postgres_folder / f"{kind}-blank"))


@pytest.fixture(scope="session")
def running_postgres(
    postgres_folder: Path, blank: Callable[[str], Path]
) -> Iterator[Callable[[str], Cluster]]:
    """The PostgreSQL of a kind, started at its first use and stopped at the end of the session."""
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
    """An empty database on each PostgreSQL in turn; the server is shared and must not
    be stopped.
    """
    with postgres_servers.database(running_postgres(postgres_kind)) as found:
        yield found


@pytest.fixture
def pg(running_postgres: Callable[[str], Cluster]) -> Iterator[Database]:
    """An empty database on the embedded PostgreSQL, for tests that do not depend on the kind."""
    with postgres_servers.database(running_postgres("embedded")) as found:
        yield found


@pytest.fixture
def own_pg(postgres_folder: Path, blank: Callable[[str], Path]) -> Iterator[Database]:
    """A PostgreSQL of the test's own: it may be stopped, killed, restarted, set to read-only."""
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
    """A database on a small disk: `disk.fill()` fills it, `disk.free()` frees it."""
    with (
        postgres_servers.small_disk(tmp_path / "disk") as disk,
        postgres_servers.on_disk(own_pg.cluster, disk) as found,
    ):
        yield found, disk
