"""A bucket of a real S3 API: what is in it, what is said when it is gone, and what is not said."""

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


async def test_anyone_with_the_api_finds_the_bytes_by_the_id(bucket: S3Server) -> None:
    put = await Shelf(place_of(bucket.url), Rules(), queue="rq/house").put(b"hello", name="a.txt")

    found = bucket.call("GET", f"/{BUCKET}/some/prefix/{put.id}")
    facts = bucket.call("GET", f"/{BUCKET}/some/prefix/{put.id}.json")

    assert found == b"hello"
    assert sha256(b"hello").hexdigest().encode() in facts


async def test_a_bucket_without_a_prefix_works(bucket: S3Server) -> None:
    url = f"s3://{BUCKET}?endpoint={bucket.endpoint}"
    shelf = Shelf(place_of(url), Rules(), queue="rq/house")

    assert await shelf.get((await shelf.put(b"hello")).reference) == b"hello"


async def test_a_server_that_is_gone_is_worth_a_retry(mortal: S3Server) -> None:
    shelf = Shelf(place_of(mortal.url), QUICK, queue="rq/house")
    put = await shelf.put(b"hello")
    mortal.stop()

    for call in (shelf.put(b"more"), shelf.get(put.reference), shelf.delete([put.id])):
        with pytest.raises(ArtifactsUnavailable, match=BUCKET):
            await call


async def test_a_bucket_that_is_not_there_is_said(bucket: S3Server) -> None:
    url = f"s3://nowhere?endpoint={bucket.endpoint}"
    shelf = Shelf(place_of(url), QUICK, queue="rq/house")

    with pytest.raises(ArtifactsUnavailable, match="nowhere"):
        await shelf.put(b"hello")


async def test_keys_are_in_no_text_and_no_log(
    mortal: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    queue = Queue("shop", url="redis://nowhere", artifacts_url=mortal.url, artifacts_timeout_sec=2)
    shelf = queue._internals.runtime.shelf
    await shelf.put(b"hello")
    mortal.stop()

    with pytest.raises(ArtifactsUnavailable) as error:
        await shelf.put(b"hello")

    told = [repr(shelf), repr(shelf.medium), repr(queue.settings), str(error.value), caplog.text]
    assert not [word for word in KEYS.values() for text in told if word in text]


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
def test_a_bad_url_is_told_when_the_settings_are_read(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        Settings(name="shop", artifacts_url=url)

    assert error.value.setting == "artifacts_url"
    assert "secret" not in str(error.value)
    assert "password@" not in str(error.value)


def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQUEUE_ARTIFACTS_URL", "file:///srv/artifacts")

    assert Settings.load("shop").artifacts_url == "file:///srv/artifacts"
