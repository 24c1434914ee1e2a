"""Real PostgreSQL servers for the tests: Debian's and the embedded one, as root and as a plain
user.
"""

from __future__ import annotations

import itertools
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from rqueue.embedded import postgres, watcher
from tests.guard import guarded

KINDS = ("embedded", "debian")
DEBIAN = Path("/usr/lib/postgresql/15/bin")
START_SEC = 60.0
NUMBERS = itertools.count()
# Data must survive the server, not the machine.
HASTE = {"fsync": "off", "full_page_writes": "off"}


@dataclass(slots=True)
class Cluster:
    """One server of a kind, which may be stopped, killed and restarted."""

    bin: Path
    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The database that every cluster has."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return postgres.url(self.folder).replace("/rqueue?", f"/{database}?")

    def start(self, **options: str) -> None:
        """Starts it with its options and these; returns when it answers."""
        until = time.monotonic() + START_SEC
        while not self.began(options):
            # Subprocesses of a killed server may still hold its shared memory.
            if time.monotonic() > until:
                log = (self.folder / "server.log").read_text()[-2000:]
                raise RuntimeError(f"PostgreSQL did not start: {log}")
            time.sleep(0.1)

    def began(self, options: dict[str, str]) -> bool:
        """Starts a process and waits until it answers or has ended."""
        data = self.folder / "data"
        given = {"listen_addresses": "", "unix_socket_directories": str(self.folder)}
        given |= {"max_connections": "200", **self.options, **options}
        words = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        before = [*postgres.run_as_owner(data), str(self.bin / "postgres")]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*before, "-D", str(data), "-p", postgres.PORT, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=watcher.environment(),
            )
        # An orderly end, with its subprocesses and shared memory.
        guarded(self.process, signal.SIGQUIT)
        while self.process.poll() is None:
            if watcher.accepts(str(self.folder / postgres.SOCKET)):
                return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        """Stops it in order and disconnects clients."""
        self.end(signal.SIGINT)

    def kill(self) -> None:
        """Kills the server and all its processes."""
        self.freeze()
        self.signal(signal.SIGKILL, children_first=True)
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=START_SEC)
            self.process = None

    def freeze(self) -> None:
        """Freezes it: its sockets stay open and accept data."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continues a frozen server."""
        self.signal(signal.SIGCONT)

    def signal(self, what: signal.Signals, *, children_first: bool = False) -> None:
        """Sends a signal to the server and all its processes; by default to the server first, so
        that it starts no new ones.
        """
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        if not children_first:
            os.kill(pid, what)
        for child in children.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), what)

    def restart(self, **options: str) -> None:
        """Restarts it with these options."""
        self.stop()
        self.start(**options)

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url_of(database), autocommit=True)


@dataclass(frozen=True, slots=True)
class Database:
    """An empty database on a server."""

    cluster: Cluster
    name: str

    @property
    def url(self) -> str:
        return self.cluster.url_of(self.name)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A plain connection with autocommit; the caller closes it."""
        return self.cluster.connect(self.name)

    def psql(self, text: str, *values: object) -> list[tuple[object, ...]]:
        """The rows of one statement, from a new connection."""
        with self.connect() as line:
            found = line.execute(text.encode(), values)
            return found.fetchall() if found.description else []

    def start(self, **options: str) -> None:
        """Starts the server; only if no other test uses it."""
        self.cluster.start(**options)

    def stop(self) -> None:
        """Stops the server; only if no other test uses it."""
        self.cluster.stop()

    def restart(self, **options: str) -> None:
        """Restarts the server with these options."""
        self.cluster.restart(**options)

    def kill(self) -> None:
        """Kills the server."""
        self.cluster.kill()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freezes the server for the duration of the block."""
        self.cluster.freeze()
        try:
            yield
        finally:
            self.cluster.thaw()

    def set_read_only(self, on: bool) -> None:
        """Refuses, or permits, writes of new transactions."""
        with self.cluster.connect() as line:
            value = sql.Literal("on" if on else "off")
            line.execute(
                sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(value)
            )
            line.execute("SELECT pg_reload_conf()")

    def drop_connections(self) -> None:
        """Terminates every connection to this database, as a failing network does."""
        with self.cluster.connect() as line:
            line.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
                (self.name,),
            )


def blank(kind: str, folder: Path) -> Path:
    """A new cluster on disk, as a template for servers."""
    data = folder / "data"
    data.mkdir(mode=0o700, parents=True)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
    words = ["-D", str(data), "-U", postgres.NAME, "--auth=trust", "--encoding=UTF8"]
    small = ["--no-locale", "--no-sync", "--wal-segsize=1"]
    command = [*postgres.run_as_owner(data), str(programs(kind) / "initdb"), *words, *small]
    subprocess.run(command, check=True, capture_output=True, env=watcher.environment())
    return data


def cluster(kind: str, folder: Path, data: Path, **options: str) -> Cluster:
    """A running server of a kind in a new folder, a copy of a template."""
    folder.mkdir(mode=0o700, parents=True)
    subprocess.run(["cp", "-a", str(data), str(folder / "data")], check=True)
    made = Cluster(programs(kind), folder, {**HASTE, **options})
    made.start()
    return made


@contextmanager
def database(
    server: Cluster, tablespace: str = "pg_default", *, like: Database | None = None
) -> Iterator[Database]:
    """A new database with the search path of the embedded one, dropped at the end; empty, or a copy
    of one without connections.
    """
    name = f"test_{next(NUMBERS)}"
    own, space = sql.Identifier(name), sql.Identifier(tablespace)
    model = sql.Identifier(like.name if like else "template1")
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} TABLESPACE {} STRATEGY file_copy")
    with server.connect() as line:
        line.execute(create.format(own, model, space))
        line.execute(sql.SQL("ALTER DATABASE {} SET search_path = rqueue, public").format(own))
    yield Database(server, name)
    if server.process is not None:
        with server.connect() as line:
            line.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(own))


def programs(kind: str) -> Path:
    """The binaries of a kind: Debian's may be missing on a laptop, not in CI."""
    if kind == "embedded":
        return postgres.programs(Path("nowhere"))
    if not (DEBIAN / "postgres").exists():
        missing(f"Debian's PostgreSQL 15 is not in {DEBIAN}")
    return DEBIAN


def missing(what: str) -> None:
    if os.environ.get("RQUEUE_TEST_POSTGRES") == "required" or os.environ.get("CI") == "true":
        pytest.fail(f"{what}, and is required here")
    pytest.skip(what)


@dataclass(frozen=True, slots=True)
class Disk:
    """A small file system that a test can fill."""

    folder: Path

    def fill(self) -> None:
        """Fills it up to the last page."""
        with (
            (self.folder / "ballast").open("wb", buffering=0) as ballast,
            suppress(OSError),
        ):
            while True:
                ballast.write(bytes(4096))

    def free(self) -> None:
        """Frees the space."""
        (self.folder / "ballast").unlink()


@contextmanager
def small_disk(folder: Path, size_mb: int = 48) -> Iterator[Disk]:
    """A disk in memory that can be filled; needs the right to mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "rqueue-tests", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        missing("a file system may not be mounted")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def on_disk(server: Cluster, disk: Disk) -> Iterator[Database]:
    """A new database with its tables on the disk and its log elsewhere: a full disk is an error."""
    space = disk.folder / "space"
    space.mkdir(mode=0o700)
    owner = (server.folder / "data").stat()
    os.chown(space, owner.st_uid, owner.st_gid)
    with server.connect() as line:
        where = sql.Literal(str(space))
        line.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(where))
    with database(server, "small") as found:
        yield found
