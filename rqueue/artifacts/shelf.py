"""Puts and reads artifacts: what is known of one is kept beside its bytes, and written last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rqueue.artifacts.data import one_piece, pieces_of, titled
from rqueue.artifacts.local import Local
from rqueue.errors import (
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactRefused,
    ConfigError,
    InvalidTask,
)
from rqueue.model.artifact import Artifact, described, id_of, read, written
from rqueue.model.ids import new_artifact_id
from rqueue.model.shelf import Bucket, Directory

if TYPE_CHECKING:
    from rqueue.model.artifact import Data
    from rqueue.model.ids import ArtifactId, TaskId
    from rqueue.model.shelf import Place, Rules

FACTS = ".json"
# Facts are small; what is larger is not ours.
MAX_FACTS = 4096
NO_HASH = "0" * 64


class Medium(Protocol):
    """Named bytes, each there whole or not at all. Names are made of ids alone."""

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None: ...

    def read(self, name: str) -> AsyncGenerator[bytes, None]: ...

    async def remove(self, names: Sequence[str]) -> None: ...

    def pages(self, before: str) -> AsyncGenerator[list[str], None]: ...


class Shelf:
    """The artifacts of one place. Nothing is opened, and no package for it imported, before the
    first is put or read. It may go to another process. `queue` is whose it is: what it puts says
    so.
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
        """Raises ConfigError where the place cannot be opened as it is set."""
        self.medium  # noqa: B018

    @cached_property
    def medium(self) -> Medium:
        """What holds the bytes."""
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
        """Keeps bytes, a text, a file or what an iterator gives. Raises ArtifactRefused and
        ArtifactsUnavailable, and then there is no artifact.
        """
        id = new_artifact_id()
        facts = {**titled(data, name, media_type), "id": id, "task": task, "queue": self.queue}
        # Checked before anything is written.
        described(size=0, sha256=NO_HASH, **facts)
        meter = Meter(self.rules.max_bytes)
        try:
            await self.medium.write(id, meter.through(pieces_of(data)))
        except Exception:
            # What the caller's own data raised is the caller's, whatever the medium made of it.
            if meter.fault is not None:
                raise meter.fault from None
            raise
        artifact = described(size=meter.size, sha256=meter.hash.hexdigest(), **facts)
        await self.medium.write(f"{id}{FACTS}", one_piece(written(artifact)))
        return artifact

    async def info(self, artifact: str | Artifact) -> Artifact:
        """What is known of an artifact; ArtifactNotFound and ArtifactDamaged."""
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
        """Whether there are bytes of an artifact, whatever is known of it."""
        try:
            async with aclosing(self.medium.read(artifact)) as pieces:
                await anext(pieces, None)
        except FileNotFoundError:
            return False
        return True

    async def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]:
        """The bytes in pieces. After the last: ArtifactDamaged, where they are not what was put."""
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
        """Writes it into a file, which is there whole and checked, or not at all."""
        target = Path(path)
        async with aclosing(self.open(artifact)) as pieces:
            await Local(target.parent).write(target.name, pieces)
        return target

    async def delete(self, artifacts: Sequence[ArtifactId]) -> None:
        """Removes artifacts for good: first what says that they are there."""
        await self.medium.remove([f"{id}{FACTS}" for id in artifacts])
        await self.medium.remove(artifacts)


class Meter:
    """Counts and hashes what passes, and lets no more pass than may."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.hash = sha256()
        self.fault: Exception | None = None

    async def through(self, pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """The same pieces; ArtifactRefused where they are too many."""
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
    """A bucket; ConfigError without the package for it."""
    try:
        from rqueue.artifacts.s3 import S3  # noqa: PLC0415 - an extra
    except ImportError:
        rule = "of a bucket needs a package: pip install 'rqueue[artifacts]'"
        raise ConfigError("artifacts_url", rule) from None
    return S3(place, timeout_sec=rules.timeout_sec)
