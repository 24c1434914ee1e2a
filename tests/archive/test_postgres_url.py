"""The URL of the archive: an invalid one is refused, and its text is in no error."""

from __future__ import annotations

import pytest

from rqueue.archive.connection import Archive
from rqueue.archive.wire import check
from rqueue.errors import ConfigError


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://queue:s3cr%ZZet@127.0.0.1:1/db",
        "postgresql://queue:abc/s3cret@127.0.0.1:1/db",
        "postgresql://queue:7/s3cret@127.0.0.1:1/db",
        "postgresql://queue:a@s3cret@127.0.0.1:1/db",
        "postgresql://queue:a?b@s3cret@127.0.0.1:1/db",
        "postgresql://queue:1/b?s3cret=2@127.0.0.1",
        "host=127.0.0.1 password=a s3cret",
        "s3cret",
    ],
)
def test_the_error_for_an_unescaped_password_does_not_contain_it(url: str) -> None:
    with pytest.raises(ConfigError, match="PGPASSWORD") as found:
        check(url)

    assert "s3cr" not in str(found.value)
    assert found.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://queue@postgres:5432/db",
        "postgresql://queue:%2F%25%40s3cret@127.0.0.1/db",
        "postgresql://queue:a?b#c:d@127.0.0.1/db",
        "postgresql:///db?host=/tmp/a@b&user=queue@here",
        "postgresql://[::1]:5432,other:5433/db",
        "host=/tmp dbname=db user=queue password=a@b/c",
        "",
    ],
)
def test_valid_urls_are_accepted(url: str) -> None:
    check(url)


async def test_an_invalid_url_is_refused_before_a_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    archive = Archive(lambda: "postgresql://queue:s3cr%ZZet@127.0.0.1:1/db", timeout_sec=0.5)

    with pytest.raises(ConfigError, match="PGPASSWORD"):
        async with archive.connection():
            pass

    assert "s3cr" not in caplog.text
