"""Fixtures: artifacts in a directory and in a bucket of a real S3 API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rqueue.artifacts.place import Directory, Rules, place_of
from rqueue.artifacts.shelf import Shelf
from tests.artifacts.s3 import KEYS, S3Server, start


@pytest.fixture(scope="session")
def bucket() -> Iterator[S3Server]:
    """A server for the whole session; each test uses its own ids."""
    server = start()
    yield server
    server.stop()


@pytest.fixture
def stoppable_bucket() -> Iterator[S3Server]:
    """A server that a test may stop."""
    server = start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the credentials in the environment."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(params=["directory", "bucket"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    """Each kind of storage location in turn."""
    if request.param == "directory":
        return Shelf(Directory(tmp_path / "kept"), Rules(), queue="rq/sales")
    server: S3Server = request.getfixturevalue("bucket")
    return Shelf(place_of(server.url), Rules(), queue="rq/sales")
