"""Several processes that share one embedded PostgreSQL."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from rqueue import embedded
from rqueue.embedded import postgres, watcher
from rqueue.errors import ConfigError, StoreUnavailable
from tests.integration.owners import Owner, owner, wait_until
from tests.processes import killed

Row = tuple[object, ...]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A created cluster, which takes a second or two."""
    return postgres.prepare(tmp_path_factory.mktemp("made"))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path is short enough for a socket, which `tmp_path` may not be."""
    with tempfile.TemporaryDirectory(prefix="rq-") as path:
        yield Path(path)


@pytest.fixture
def folder(short_path: Path, made: Path) -> Iterator[Path]:
    (short_path / "data").mkdir(mode=0o700)
    subprocess.run(["cp", "-a", str(made), str(postgres.home(short_path / "data"))], check=True)
    yield short_path / "data"
    wait_until(lambda: not socket_in(short_path / "data").exists())


@pytest.fixture
def empty(short_path: Path) -> Iterator[Path]:
    """An empty directory without a cluster."""
    yield short_path / "empty"
    wait_until(lambda: not socket_in(short_path / "empty").exists())


def socket_in(folder: Path) -> Path:
    return postgres.home(folder) / postgres.SOCKET


def server_id(folder: Path) -> int:
    return watcher.postmaster_id(str(socket_in(folder)))


def another(folder: Path) -> AbstractContextManager[Owner]:
    return owner(folder, "start_postgres")


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """This process as an owner."""
    url = embedded.start_postgres(folder)
    try:
        yield url
    finally:
        embedded.stop_postgres(folder)


def ask(url: str, text: str) -> list[Row]:
    with psycopg.connect(url, autocommit=True) as line:
        found = line.execute(text.encode())
        return found.fetchall() if found.description else []


def gone(folder: Path) -> None:
    """Waits until the server has ended."""
    wait_until(lambda: not socket_in(folder).exists())


def test_the_server_has_a_database_is_durable_and_listens_on_its_socket_only(empty: Path) -> None:
    with started(empty) as url:
        names = (
            "search_path",
            "fsync",
            "synchronous_commit",
            "listen_addresses",
            "server_encoding",
        )
        wanted = ", ".join(f"current_setting('{name}')" for name in names)
        found = ask(url, f"SELECT current_database(), {wanted}")

        assert found == [("rqueue", "rqueue, public", "on", "on", "", "UTF8")]
        assert socket_in(empty).stat().st_mode & 0o777 == 0o700
        assert postgres.home(empty).stat().st_mode & 0o777 == 0o700


def test_two_processes_share_one_server(folder: Path) -> None:
    with another(folder) as first, another(folder) as second:
        urls = {first.url(), second.url()}
        assert len(urls) == 1
        url = urls.pop()
        before = ask(url, "SELECT pg_postmaster_start_time()")

        first.leave()

        assert ask(url, "SELECT pg_postmaster_start_time()") == before


def test_concurrent_processes_create_one_cluster(empty: Path) -> None:
    owners = [Owner(empty, "start_postgres") for _ in range(4)]
    try:
        starts = {str(ask(one.url(), "SELECT pg_postmaster_start_time()")) for one in owners}

        assert len(starts) == 1
        assert not (empty / "postgres.new").exists()
    finally:
        for one in owners:
            one.kill()


def test_the_server_of_a_killed_owner_ends(folder: Path) -> None:
    with another(folder) as only:
        url = only.url()
        with psycopg.connect(url):
            number = server_id(folder)

            only.kill()

            wait_until(lambda: not watcher.is_running(None, number))
    with pytest.raises(psycopg.OperationalError):
        ask(url, "SELECT 1")


def test_data_survives_a_stop_and_a_start(folder: Path) -> None:
    with started(folder) as url:
        ask(url, "CREATE TABLE kept AS SELECT 'yes' AS x")
    gone(folder)

    with started(folder) as url:
        assert ask(url, "SELECT x FROM kept") == [("yes",)]


def test_a_share_is_counted_within_a_process(folder: Path) -> None:
    with started(folder) as url:
        with started(folder) as same:
            assert same == url
        assert ask(url, "SELECT 1") == [(1,)]


def test_a_killed_server_is_restarted_with_its_data(folder: Path) -> None:
    with started(folder) as url:
        ask(url, "CREATE TABLE kept AS SELECT 1 AS x")
        os.kill(server_id(folder), signal.SIGKILL)
        wait_until(lambda: not watcher.accepts(str(socket_in(folder))))
        assert (postgres.home(folder) / "data" / "postmaster.pid").exists()

        with started(folder) as again:
            assert again == url
            assert ask(url, "SELECT x FROM kept") == [(1,)]


def test_a_server_killed_while_writing_restarts_by_itself(folder: Path) -> None:
    with started(folder) as url, closing(psycopg.connect(url)) as line:
        # A busy subprocess does not notice the end of its parent at once, and keeps the shared
        # memory.
        line.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 900000000)")
        number = server_id(folder)

        os.kill(number, signal.SIGKILL)

        wait_until(lambda: not watcher.is_running(None, number))
        wait_until(lambda: watcher.accepts(str(socket_in(folder))))
        assert server_id(folder) != number
        assert ask(url, "SELECT 1") == [(1,)]


def test_a_reused_process_id_is_not_taken_for_the_server(folder: Path) -> None:
    with started(folder):
        left = postgres.home(folder) / "data" / "postmaster.pid"
        lines = left.read_text().splitlines()
        beside = Path(f"{socket_in(folder)}.lock").read_text().splitlines()
    gone(folder)
    same_user = postgres.run_as_owner(left.parent)

    with killed(subprocess.Popen([*same_user, "sleep", "1000"])) as foreign:
        left.write_text("\n".join([str(foreign.pid), *lines[1:], ""]))
        Path(f"{socket_in(folder)}.lock").write_text("\n".join([str(foreign.pid), *beside[1:], ""]))
        with started(folder) as url:
            assert ask(url, "SELECT 1") == [(1,)]
        assert foreign.poll() is None


def test_a_server_without_a_watcher_gets_a_new_one(folder: Path) -> None:
    with another(folder) as first:
        url = first.url()
        number = server_id(folder)
        watching = postgres.home(folder) / watcher.WATCHER
        os.kill(int(watching.read_text()), signal.SIGKILL)
        with another(folder) as second:
            assert second.url() == url
        assert server_id(folder) == number

    wait_until(lambda: not watcher.is_running(None, number))


def test_an_incomplete_cluster_is_created_again(empty: Path) -> None:
    with another(empty) as first:
        wait_until((empty / "postgres.new" / "data" / "base").exists)
        first.kill()
    assert not postgres.home(empty).exists()

    with started(empty) as url:
        assert ask(url, "SELECT 1") == [(1,)]


def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    with started(folder) as url:
        with another(folder) as other:
            assert other.url() == url
        where = Path(str(ask(url, "SHOW unix_socket_directories")[0][0]).strip('"'))

        assert len(str(where)) < 80
        assert where.stat().st_mode & 0o777 == 0o700

    wait_until(lambda: not where.exists())


def test_a_path_may_have_any_characters(short_path: Path) -> None:
    folder = short_path / """it's "1; 2" of 100%20&x=y"""
    with started(folder) as url:
        assert socket_in(folder).exists()
        assert ask(url, "SELECT 1") == [(1,)]
    gone(folder)


def test_a_comma_in_the_path_does_not_separate_hosts(short_path: Path) -> None:
    folder = short_path / "a,b"
    with started(folder) as url:
        assert ask(url, "SELECT 1") == [(1,)]
        assert not socket_in(folder).exists()
    wait_until(lambda: not (postgres.home(folder) / "socket").exists())


def test_variables_of_another_postgresql_are_ignored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "7777", "PGDATA": "/nowhere", "PGUSER": "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PGDATESTYLE", "nonsense")

    with started(folder) as url:
        # A client of ours would report it to the server, and be refused.
        monkeypatch.delenv("PGDATESTYLE")
        assert ask(url, "SELECT current_user::text") == [("rqueue",)]


def test_root_starts_the_server_as_another_user_in_a_private_directory(
    folder: Path, short_path: Path
) -> None:
    mode = short_path.stat().st_mode
    with started(folder):
        running = Path(f"/proc/{server_id(folder)}").stat()

        assert running.st_uid == (postgres.home(folder) / "data").stat().st_uid != 0
        assert (running.st_uid == os.geteuid()) == (os.geteuid() != 0)
        assert short_path.stat().st_mode == mode
        assert mode & 0o077 == 0


def test_binaries_in_a_private_directory_of_root_can_be_used(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    install = postgres.programs(empty).parent
    subprocess.run(["cp", "-a", str(install), str(private / "pginstall")], check=True)
    # They find their libraries in the package.
    libraries = install.parent.with_name(f"{postgres.PACKAGE}.libs")
    (tmp_path / libraries.name).symlink_to(libraries)
    monkeypatch.setattr(postgres, "programs", lambda _: private / "pginstall" / "bin")

    with started(empty) as url:
        assert ask(url, "SELECT 1") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="every other test here runs as a plain user")
def test_a_plain_user_starts_the_server_and_root_can_use_it(empty: Path) -> None:
    empty.mkdir(mode=0o700)
    nobody = pwd.getpwnam("nobody")
    os.chown(empty, nobody.pw_uid, nobody.pw_gid)

    with owner(empty, "start_postgres", postgres.run_as_owner(empty)) as plain:
        url = plain.url()
        assert ask(url, "SELECT 1") == [(1,)]
        assert socket_in(empty).stat().st_uid == nobody.pw_uid
        assert postgres.home(empty).stat().st_uid == nobody.pw_uid
        with started(empty) as same:
            assert same == url
    gone(empty)

    with started(empty) as url:
        assert ask(url, "SELECT 1") == [(1,)]


def test_root_without_setpriv_gets_an_error_with_the_solution(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)

    with pytest.raises(ConfigError, match=r"setpriv.*set postgres_url"):
        embedded.start_postgres(empty)

    assert not postgres.home(empty).exists()


def test_a_cluster_that_is_being_created_is_waited_for(empty: Path) -> None:
    with another(empty) as first:
        children = Path(f"/proc/{first.process.pid}/task/{first.process.pid}/children")
        wait_until((empty / "postgres.new" / "data" / "base").exists)
        making = int(children.read_text().split()[0])
        os.kill(making, signal.SIGSTOP)
        first.kill()
    try:
        with (empty / "postgres.lock").open("a") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(making, signal.SIGCONT)

    with started(empty) as url:
        assert ask(url, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("word", "bad", "why"),
    [
        ("NAME", "pg_reserved", 'superuser name "pg_reserved" is disallowed'),
        ("FIRST", "CREATE NONSENSE\n", 'syntax error at or near "NONSENSE"'),
    ],
)
def test_a_failed_creation_reports_the_reason(
    empty: Path, monkeypatch: pytest.MonkeyPatch, *, word: str, bad: str, why: str
) -> None:
    monkeypatch.setattr(postgres, word, bad)

    with pytest.raises(StoreUnavailable, match=why):
        embedded.start_postgres(empty)

    assert not postgres.home(empty).exists()


def test_a_missing_package_is_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PACKAGE", "no_such_package")

    assert not embedded.has_postgres()
    with pytest.raises(ConfigError, match=r"pip install 'rqueue\[embedded\]'"):
        embedded.start_postgres(empty)


def test_data_of_a_version_that_is_not_installed_is_named(empty: Path) -> None:
    data = postgres.home(empty) / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("12\n")

    with pytest.raises(ConfigError, match="needs PostgreSQL 12"):
        embedded.start_postgres(empty)


def test_the_package_is_located_without_being_imported(folder: Path) -> None:
    with started(folder):
        assert postgres.PACKAGE not in sys.modules
