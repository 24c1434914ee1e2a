"""Artifacts in an S3 bucket; the only importer of obstore."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import S3Store

from rqueue.errors import ArtifactsUnavailable, ConfigError

if TYPE_CHECKING:
    from rqueue.artifacts.place import Bucket

# Bytes per request, so that a request ends within its timeout however large the artifact is.
PIECE = 8 << 20
AT_ONCE = 2
PAGE = 1000
RETRIES = 3
# The default region for endpoints that have none; the API requires one.
REGION = "us-east-1"
MAX_TEXT = 300


class S3:
    """Objects by name. A multipart upload becomes visible when it is complete."""

    def __init__(self, bucket: Bucket, *, timeout_sec: float) -> None:
        self.bucket = bucket.name
        time = timedelta(seconds=timeout_sec)
        options: dict[str, Any] = {} if bucket.endpoint is None else {"endpoint": bucket.endpoint}
        if bucket.region is not None or bucket.endpoint is not None:
            options["region"] = bucket.region or REGION
        plain = (bucket.endpoint or "").startswith("http://")
        try:
            # Keys and tokens are taken from AWS_* in the environment.
            self.store = S3Store(
                bucket.name,
                prefix=bucket.prefix or None,
                client_options={"timeout": time, "connect_timeout": time, "allow_http": plain},
                retry_config={"max_retries": RETRIES, "retry_timeout": time},
                **options,
            )
        except BaseError as error:
            raise ConfigError("artifacts_url", first_line(error)) from None

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        """Stores the chunks as one object; nothing is stored if they raise."""
        with self.translated():
            await self.store.put_async(name, pieces, chunk_size=PIECE, max_concurrency=AT_ONCE)

    async def read(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yields the chunks of an object. Raises FileNotFoundError."""
        with self.translated(missing=False):
            size = (await self.store.head_async(name))["size"]
        for start in count(0, PIECE):
            if start >= size:
                return
            with self.translated(missing=False):
                end = min(start + PIECE, size)
                found = await self.store.get_range_async(name, start=start, end=end)
            yield bytes(found)

    async def remove(self, names: Sequence[str]) -> None:
        """Deletes objects; missing ones are ignored."""
        with self.translated():
            await self.store.delete_async(list(names))

    async def pages(self, before: str) -> AsyncGenerator[list[str], None]:
        """Yields the names below one in pages, sorted as S3 lists them."""
        with self.translated():
            listing = self.store.list(chunk_size=PAGE)
        while True:
            with self.translated():
                page = await anext(listing, None)
            names = [] if page is None else [found["path"] for found in page]
            if names:
                yield [name for name in names if name < before]
            if page is None or (names and names[-1] >= before):
                return

    @contextmanager
    def translated(self, *, missing: bool = True) -> Iterator[None]:
        """Translates errors of the store to ArtifactsUnavailable. With `missing=False` a missing
        object raises FileNotFoundError.
        """
        try:
            yield
        except FileNotFoundError as error:
            if not missing:
                raise FileNotFoundError from None
            raise ArtifactsUnavailable(f"bucket {self.bucket} does not exist") from error
        except (BaseError, OSError) as error:
            raise ArtifactsUnavailable(f"bucket {self.bucket}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Returns the first line of an error; the other lines are debug output of the library."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:MAX_TEXT]
