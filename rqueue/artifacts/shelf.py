"""Puts and reads artifacts. Metadata is stored beside the bytes and is written last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rqueue.artifacts.data import one_piece, pieces_of, titled
from rqueue.artifacts.local import Local
from rqueue.artifacts.place import Bucket, Directory
from rqueue.errors import (
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactRefused,
    ConfigError,
    InvalidTask,
)
from rqueue.task.artifact import Artifact, described, id_of, read, written
from rqueue.task.ids import new_artifact_id

if TYPE_CHECKING:
    from rqueue.artifacts.place import Place, Rules
    from rqueue.task.artifact import Data
    from rqueue.task.ids import ArtifactId, TaskId

FACTS = ".json"
# Size limit of the metadata; a larger file was not written by rqueue.
MAX_FACTS = 4096
NO_HASH = "0" * 64


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
        described(size=0, sha256=NO_HASH, **facts)
        meter = Meter(self.rules.max_bytes)
        try:
            await self.medium.write(id, meter.through(pieces_of(data)))
        except Exception:
            # An error of the caller's own data is raised unchanged, not as an error of the medium.
            if meter.fault is not None:
                raise meter.fault from None
            raise
        artifact = described(size=meter.size, sha256=meter.hash.hexdigest(), **facts)
        await self.medium.write(f"{id}{FACTS}", one_piece(written(artifact)))
        return artifact

    async def info(self, artifact: str | Artifact) -> Artifact:
        """The metadata of an artifact; raises ArtifactNotFound and ArtifactDamaged."""
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
            found = read(line)
        except FileNotFoundError:
            raise ArtifactNotFound(f"artifact:{id}") from None
        except InvalidTask:
            raise ArtifactDamaged(f"artifact:{id}", "has facts that cannot be read") from None
        if found.id != id:
            raise ArtifactDamaged(f"artifact:{id}", f"says that it is {found.id}")
        return found

    async def has_bytes(self, artifact: ArtifactId) -> bool:
        """Whether an artifact has bytes, with or without metadata."""
        try:
            async with aclosing(self.medium.read(artifact)) as pieces:
                await anext(pieces, None)
        except FileNotFoundError:
            return False
        return True

    async def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]:
        """The bytes in chunks. Raises ArtifactDamaged at the end if size or hash do not match."""
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
            raise ArtifactDamaged(facts.reference, "has not the bytes that were put")

    async def get(self, artifact: str | Artifact) -> bytes:
        """All of its bytes."""
        async with aclosing(self.open(artifact)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path:
        """Writes it to a file atomically, after size and hash are checked."""
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
        """The same chunks; raises ArtifactRefused beyond the limit."""
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
    """The store of a bucket; raises ConfigError if its package is not installed."""
    try:
        from rqueue.artifacts.s3 import S3  # noqa: PLC0415 - an extra
    except ImportError:
        rule = "of a bucket needs a package: pip install 'rqueue[artifacts]'"
        raise ConfigError("artifacts_url", rule) from None
    return S3(place, timeout_sec=rules.timeout_sec)
