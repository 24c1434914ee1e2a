"""Puts and reads artifacts. Metadata is stored beside the bytes and is written last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rqueue.artifacts.local import Local
from rqueue.artifacts.place import Bucket, Directory
from rqueue.errors import (
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactRefused,
    ConfigError,
    InvalidTask,
)
from rqueue.task.artifact import BINARY, Artifact, artifact_of, id_of, line_of, parse_line
from rqueue.task.ids import new_artifact_id

if TYPE_CHECKING:
    from rqueue.artifacts.place import Place, Rules
    from rqueue.task.artifact import Data
    from rqueue.task.ids import ArtifactId, TaskId

FACTS = ".json"
# Size limit of the metadata; a larger file was not written by rqueue.
MAX_FACTS = 4096
NO_HASH = "0" * 64
PIECE = 1 << 20
TEXT = "text/plain; charset=utf-8"
# The default name.
NAMELESS = "data"


class Medium(Protocol):
    """A store of named bytes; writes are atomic. Names are made from ids."""

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None: ...

    def read(self, name: str) -> AsyncGenerator[bytes, None]: ...

    async def remove(self, names: Sequence[str]) -> None: ...

    def pages(self, before: str) -> AsyncGenerator[list[str], None]: ...


class Shelf:
    """The artifacts of one storage location. It is opened, and its package imported, at the first
    use. It can be pickled. `queue` is the queue's name, which is stored with each artifact.
    """

    def __init__(self, place: Place, rules: Rules, *, queue: str) -> None:
        self.place = place
        self.rules = rules
        self.queue = queue

    def __repr__(self) -> str:
        return f"Shelf({self.place!r})"

    def __getstate__(self) -> dict[str, object]:
        return {"place": self.place, "rules": self.rules, "queue": self.queue}

    def check(self) -> None:
        """Raises ConfigError if the storage location cannot be opened."""
        self.medium  # noqa: B018

    @cached_property
    def medium(self) -> Medium:
        """The store of the bytes, opened at the first use."""
        match self.place:
            case Directory(path):
                return Local(path)
            case Bucket():
                return bucket(self.place, self.rules)

    async def put(
        self,
        data: Data,
        *,
        name: str | None = None,
        media_type: str | None = None,
        task: TaskId | None = None,
    ) -> Artifact:
        """Stores bytes, a text, a file or the output of an iterator. Raises ArtifactRefused and
        ArtifactsUnavailable; no artifact is stored then.
        """
        id = new_artifact_id()
        facts = {**titled(data, name, media_type), "id": id, "task": task, "queue": self.queue}
        # Checked before anything is written.
        artifact_of(size=0, sha256=NO_HASH, **facts)
        meter = Meter(self.rules.max_bytes)
        try:
            await self.medium.write(id, meter.through(pieces_of(data)))
        except Exception:
            # An error of the caller's own data is raised unchanged, not as an error of the medium.
            if meter.fault is not None:
                raise meter.fault from None
            raise
        artifact = artifact_of(size=meter.size, sha256=meter.hash.hexdigest(), **facts)
        await self.medium.write(f"{id}{FACTS}", one_piece(line_of(artifact)))
        return artifact

    async def info(self, artifact: str | Artifact) -> Artifact:
        """Returns the metadata of an artifact. Raises ArtifactNotFound and ArtifactDamaged."""
        if isinstance(artifact, Artifact):
            return artifact
        id = id_of(artifact)
        line = b""
        try:
            async with aclosing(self.medium.read(f"{id}{FACTS}")) as pieces:
                async for piece in pieces:
                    line += piece
                    if len(line) > MAX_FACTS:
                        break
            found = parse_line(line)
        except FileNotFoundError:
            raise ArtifactNotFound(f"artifact:{id}") from None
        except InvalidTask:
            raise ArtifactDamaged(f"artifact:{id}", "has unreadable metadata") from None
        if found.id != id:
            raise ArtifactDamaged(f"artifact:{id}", f"has the metadata of {found.id}")
        return found

    async def has_bytes(self, artifact: ArtifactId) -> bool:
        """Returns whether an artifact has bytes, with or without metadata."""
        try:
            async with aclosing(self.medium.read(artifact)) as pieces:
                await anext(pieces, None)
        except FileNotFoundError:
            return False
        return True

    async def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]:
        """Yields the bytes in chunks. Raises ArtifactDamaged at the end if size or hash do not
        match.
        """
        facts = await self.info(artifact)
        meter = Meter(facts.size)
        try:
            async with aclosing(self.medium.read(facts.id)) as pieces:
                async for piece in meter.through(pieces):
                    yield piece
        except FileNotFoundError:
            raise ArtifactNotFound(facts.reference) from None
        except ArtifactRefused:
            raise ArtifactDamaged(facts.reference, "has more bytes than were put") from None
        if (meter.size, meter.hash.hexdigest()) != (facts.size, facts.sha256):
            raise ArtifactDamaged(
                facts.reference, "has a different size or hash than when it was put"
            )

    async def get(self, artifact: str | Artifact) -> bytes:
        """Returns all bytes of an artifact. Raises ArtifactNotFound and ArtifactDamaged."""
        async with aclosing(self.open(artifact)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path:
        """Writes an artifact to a file atomically, after size and hash are checked."""
        target = Path(path)
        async with aclosing(self.open(artifact)) as pieces:
            await Local(target.parent).write(target.name, pieces)
        return target

    async def delete(self, artifacts: Sequence[ArtifactId]) -> None:
        """Deletes artifacts, the metadata first."""
        await self.medium.remove([f"{id}{FACTS}" for id in artifacts])
        await self.medium.remove(artifacts)


class Meter:
    """Counts and hashes the chunks of a stream and enforces a size limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.hash = sha256()
        self.fault: Exception | None = None

    async def through(self, pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """Yields the same chunks. Raises ArtifactRefused beyond the limit."""
        try:
            async for piece in pieces:
                self.size += len(piece)
                if self.size > self.limit:
                    rule = f"has more than {self.limit} bytes (artifacts_max_bytes)"
                    raise ArtifactRefused("artifact", rule)
                self.hash.update(piece)
                yield piece
        except Exception as error:
            self.fault = error
            raise


def bucket(place: Bucket, rules: Rules) -> Medium:
    """Returns the store of a bucket. Raises ConfigError if its package is not installed."""
    try:
        from rqueue.artifacts.s3 import S3  # noqa: PLC0415 - an extra
    except ImportError:
        rule = "of a bucket needs a package: pip install 'rqueue[artifacts]'"
        raise ConfigError("artifacts_url", rule) from None
    return S3(place, timeout_sec=rules.timeout_sec)


def titled(data: Data, name: str | None, media_type: str | None) -> dict[str, str]:
    """Returns the name and the media type, given or derived from the data."""
    import mimetypes  # noqa: PLC0415 - only needed to put artifacts

    called = name or (data.name if isinstance(data, Path) else NAMELESS)
    guessed, _ = mimetypes.guess_type(called)
    return {
        "name": called,
        "media_type": media_type or guessed or (TEXT if isinstance(data, str) else BINARY),
    }


def pieces_of(data: object) -> AsyncGenerator[bytes, None]:
    """Returns the data in chunks. Raises ArtifactRefused for an unsupported type."""
    match data:
        case str():
            return sliced(memoryview(data.encode()))
        case bytes() | bytearray() | memoryview():
            return sliced(memoryview(data).cast("B"))
        case Path():
            return read_file(data)
        case AsyncIterable():
            return gathered(data)
        case _:
            rule = f"must be bytes, a text, a Path or an async iterator, not {type(data).__name__}"
            raise ArtifactRefused("data", rule)


async def one_piece(data: bytes) -> AsyncGenerator[bytes, None]:
    """Yields the bytes as a single chunk."""
    yield data


async def sliced(view: memoryview) -> AsyncGenerator[bytes, None]:
    """Yields a buffer in chunks."""
    for start in range(0, len(view), PIECE):
        yield bytes(view[start : start + PIECE])


async def read_file(path: Path) -> AsyncGenerator[bytes, None]:
    """Yields the content of a file in chunks."""
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        rule = f"{path} cannot be read: {error.strerror or type(error).__name__}"
        raise ArtifactRefused("data", rule) from error
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece


async def gathered(source: AsyncIterable[object]) -> AsyncGenerator[bytes, None]:
    """Yields the output of an iterator in chunks of at least PIECE bytes."""
    waiting = bytearray()
    async for piece in source:
        if not isinstance(piece, bytes | bytearray | memoryview):
            rule = f"yields {type(piece).__name__}, but an artifact consists of bytes"
            raise ArtifactRefused("data", rule)
        waiting += piece
        if len(waiting) >= PIECE:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)
