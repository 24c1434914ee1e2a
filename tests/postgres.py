"""Real PostgreSQL servers for the tests: Debian's and the embedded one, as root and as anyone."""

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
# What a test writes survives the server, and need not survive the machine.
HASTE = {"fsync": "off", "full_page_writes": "off"}


@dataclass(slots=True)
class Cluster:
    """One server of a kind, which may be stopped, killed and started again."""

    bin: Path
    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The database that every cluster begins with."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return postgres.url(self.folder).replace("/rqueue?", f"/{database}?")

    def start(self, **options: str) -> None:
        """Run it, with its options and these; it answers when this returns."""
        until = time.monotonic() + START_SEC
        while not self.began(options):
            # Children of one that was killed may still hold its memory.
            if time.monotonic() > until:
                log = (self.folder / "server.log").read_text()[-2000:]
                raise RuntimeError(f"PostgreSQL did not start: {log}")
            time.sleep(0.1)

    def began(self, options: dict[str, str]) -> bool:
        """Start a process, and wait until it answers or is gone."""
        data = self.folder / "data"
        given = {"listen_addresses": "", "unix_socket_directories": str(self.folder)}
        given |= {"max_connections": "200", **self.options, **options}
        words = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        before = [*postgres.plainly(data), str(self.bin / "postgres")]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*before, "-D", str(data), "-p", postgres.PORT, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=watcher.environment(),
            )
        # In good order enough to take its children and its memory with it.
        guarded(self.process, signal.SIGQUIT)
        while self.process.poll() is None:
            if watcher.accepts(str(self.folder / postgres.SOCKET)):
                return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        """Stop it in good order; clients are sent away."""
        self.end(signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of the server and all its processes: none of them finishes what it has begun."""
        self.freeze()
        self.signal(signal.SIGKILL, children_first=True)
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=START_SEC)
            self.process = None

    def freeze(self) -> None:
        """Let it neither work nor say so: its sockets stay open and take what is sent to them."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on where it was."""
        self.signal(signal.SIGCONT)

    def signal(self, what: signal.Signals, *, children_first: bool = False) -> None:
        """Sends a signal to the server and all its processes; by default to the server first, so
        that it starts no new one.
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
        """Stop it, and run it with these options."""
        self.stop()
        self.start(**options)

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url_of(database), autocommit=True)


@dataclass(frozen=True, slots=True)
class Database:
    """An empty database on a server, as tests use it."""

    cluster: Cluster
    name: str

    @property
    def url(self) -> str:
        return self.cluster.url_of(self.name)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A plain connection that commits by itself; the caller closes it."""
        return self.cluster.connect(self.name)

    def psql(self, text: str, *values: object) -> list[tuple[object, ...]]:
        """The rows of one statement, from a connection of its own."""
        with self.connect() as line:
            found = line.execute(text.encode(), values)
            return found.fetchall() if found.description else []

    def start(self, **options: str) -> None:
        """Start the whole server; for one that no other test uses."""
        self.cluster.start(**options)

    def stop(self) -> None:
        """Stop the whole server; for one that no other test uses."""
        self.cluster.stop()

    def restart(self, **options: str) -> None:
        """Stop the whole server and start it with these options."""
        self.cluster.restart(**options)

    def kill(self) -> None:
        """End the whole server without a word to anyone."""
        self.cluster.kill()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """A server that answers nobody, for as long as this is open."""
        self.cluster.freeze()
        try:
            yield
        finally:
            self.cluster.thaw()

    def set_read_only(self, on: bool) -> None:
        """Refuse, or take, writes from every connection that begins a transaction from now on."""
        with self.cluster.connect() as line:
            value = sql.Literal("on" if on else "off")
            line.execute(
                sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(value)
            )
            line.execute("SELECT pg_reload_conf()")

    def drop_connections(self) -> None:
        """Cut every connection to this database, as a failing network does; each has ended."""
        with self.cluster.connect() as line:
            line.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
                (self.name,),
            )


def blank(kind: str, folder: Path) -> Path:
    """A new cluster on disk, to make servers of."""
    data = folder / "data"
    data.mkdir(mode=0o700, parents=True)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
    words = ["-D", str(data), "-U", postgres.NAME, "--auth=trust", "--encoding=UTF8"]
    small = ["--no-locale", "--no-sync", "--wal-segsize=1"]
    command = [*postgres.plainly(data), str(programs(kind) / "initdb"), *words, *small]
    subprocess.run(command, check=True, capture_output=True, env=watcher.environment())
    return data


def cluster(kind: str, folder: Path, data: Path, **options: str) -> Cluster:
    """A running server of a kind in a new folder, made of a copy of a blank one."""
    folder.mkdir(mode=0o700, parents=True)
    subprocess.run(["cp", "-a", str(data), str(folder / "data")], check=True)
    made = Cluster(programs(kind), folder, {**HASTE, **options})
    made.start()
    return made


@contextmanager
def database(
    server: Cluster, tablespace: str = "pg_default", *, like: Database | None = None
) -> Iterator[Database]:
    """A new database, with the search path that an embedded one has, for a while; empty, or a copy
    of one that nobody is connected to.
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
    """The binaries of a kind: a laptop may be without Debian's, CI may not."""
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
    """A small file system of its own, to be full when a test says so."""

    folder: Path

    def fill(self) -> None:
        """Leave no room for another page."""
        with (
            (self.folder / "ballast").open("wb", buffering=0) as ballast,
            suppress(OSError),
        ):
            while True:
                ballast.write(bytes(4096))

    def free(self) -> None:
        """Give the room back."""
        (self.folder / "ballast").unlink()


@contextmanager
def small_disk(folder: Path, size_mb: int = 48) -> Iterator[Disk]:
    """A disk in memory that may be filled for real; needs the right to mount."""
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
