"""Artifacts in a bucket of a real S3 API: objects, errors and secrets."""

from __future__ import annotations

import logging
from hashlib import sha256

import pytest

from rqueue import Queue, Settings
from rqueue.artifacts.place import Rules, place_of
from rqueue.artifacts.shelf import Shelf
from rqueue.errors import ArtifactsUnavailable, ConfigError
from tests.artifacts.s3 import BUCKET, KEYS, S3Server

QUICK = Rules(timeout_sec=2)


async def test_objects_are_stored_under_the_artifact_id(bucket: S3Server) -> None:
    put = await Shelf(place_of(bucket.url), Rules(), queue="rq/sales").put(b"hello", name="a.txt")

    found = bucket.call("GET", f"/{BUCKET}/some/prefix/{put.id}")
    facts = bucket.call("GET", f"/{BUCKET}/some/prefix/{put.id}.json")

    assert found == b"hello"
    assert sha256(b"hello").hexdigest().encode() in facts


async def test_a_bucket_without_a_prefix_works(bucket: S3Server) -> None:
    url = f"s3://{BUCKET}?endpoint={bucket.endpoint}"
    shelf = Shelf(place_of(url), Rules(), queue="rq/sales")

    assert await shelf.get((await shelf.put(b"hello")).reference) == b"hello"


async def test_an_unreachable_server_is_a_retryable_error(stoppable_bucket: S3Server) -> None:
    shelf = Shelf(place_of(stoppable_bucket.url), QUICK, queue="rq/sales")
    put = await shelf.put(b"hello")
    stoppable_bucket.stop()

    for call in (shelf.put(b"more"), shelf.get(put.reference), shelf.delete([put.id])):
        with pytest.raises(ArtifactsUnavailable, match=BUCKET):
            await call


async def test_a_missing_bucket_is_reported(bucket: S3Server) -> None:
    url = f"s3://nowhere?endpoint={bucket.endpoint}"
    shelf = Shelf(place_of(url), QUICK, queue="rq/sales")

    with pytest.raises(ArtifactsUnavailable, match="nowhere"):
        await shelf.put(b"hello")


async def test_credentials_are_in_no_error_and_no_log(
    stoppable_bucket: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    queue = Queue(
        "shop", url="redis://nowhere", artifacts_url=stoppable_bucket.url, artifacts_timeout_sec=2
    )
    shelf = queue._internals.runtime.shelf
    await shelf.put(b"hello")
    stoppable_bucket.stop()

    with pytest.raises(ArtifactsUnavailable) as error:
        await shelf.put(b"hello")

    texts = [repr(shelf), repr(shelf.medium), repr(queue.settings), str(error.value), caplog.text]
    assert not [word for word in KEYS.values() for text in texts if word in text]


@pytest.mark.parametrize(
    "url",
    [
        "bucket/prefix",
        "http://bucket",
        "s3://",
        "s3://user:password@bucket",
        "s3://bucket?endpoint=localhost:9000",
        "s3://bucket?endpoint=https://id:secret@host",
        "s3://bucket?endpoint=",
        "s3://bucket?key=1",
        "s3://bucket?region=a&region=b",
        "s3://bucket#part",
        "s3://bucket?region",
        "file://host/path",
        "file:relative",
        "file:///a?b=c",
        "s3://[",
    ],
)
def test_an_invalid_url_is_refused_by_the_settings(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        Settings(name="shop", artifacts_url=url)

    assert error.value.setting == "artifacts_url"
    assert "secret" not in str(error.value)
    assert "password@" not in str(error.value)


def test_the_url_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQUEUE_ARTIFACTS_URL", "file:///srv/artifacts")

    assert Settings.load("shop").artifacts_url == "file:///srv/artifacts"
