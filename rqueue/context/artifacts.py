"""The artifacts of an attempt: what its handler puts is noted with the task."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from rqueue.context import Context
    from rqueue.model.artifact import Artifact, Data
    from rqueue.model.ids import TaskId


class Shelf(Protocol):
    """Where artifacts are kept."""

    async def put(
        self,
        data: Data,
        *,
        name: str | None = None,
        media_type: str | None = None,
        task: TaskId | None = None,
    ) -> Artifact: ...

    async def info(self, artifact: str | Artifact) -> Artifact: ...

    def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]: ...

    async def get(self, artifact: str | Artifact) -> bytes: ...

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path: ...


class Reading:
    """Reads artifacts, by their reference or by what `put` gave. Raises ArtifactNotFound,
    ArtifactDamaged where the bytes are not those that were put, and ArtifactsUnavailable.
    """

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    async def info(self, artifact: str | Artifact) -> Artifact:
        """What is known of it, without its bytes."""
        return (await self.shelf.info(artifact)).at(self)

    async def get(self, artifact: str | Artifact) -> bytes:
        """All of its bytes."""
        return await self.shelf.get(artifact)

    def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]:
        """Its bytes in pieces, for `async for`; that they are damaged is said after the last."""
        return self.shelf.open(artifact)

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path:
        """Writes it into a file, which is there whole or not at all."""
        return await self.shelf.save(artifact, path)


class Artifacts(Reading):
    """Those of an attempt."""

    def __init__(self, ctx: Context, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.ctx = ctx

    async def put(
        self, data: Data, *, name: str | None = None, media_type: str | None = None
    ) -> Artifact:
        """Keeps bytes, a text, a file (as a Path) or what an async iterator gives, and notes it
        with the task. Raises LeaseLost where another may run the task: what was put is nobody's
        then, and is swept one day.
        """
        shelf = self.shelf
        found = await shelf.put(data, name=name, media_type=media_type, task=self.ctx.id)
        await self.ctx.scribe.attach(found)
        return found.at(self)


class BlockingArtifacts:
    """The same as ordinary calls, for plain functions."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def put(
        self, data: Data, *, name: str | None = None, media_type: str | None = None
    ) -> Artifact:
        """Keeps it, and notes it with the task."""
        return self.ctx.sync.run(self.ctx.artifacts.put(data, name=name, media_type=media_type))

    def info(self, artifact: str | Artifact) -> Artifact:
        """What is known of it."""
        return self.ctx.sync.run(self.ctx.artifacts.info(artifact))

    def get(self, artifact: str | Artifact) -> bytes:
        """All of its bytes."""
        return self.ctx.sync.run(self.ctx.artifacts.get(artifact))

    def save(self, artifact: str | Artifact, path: str | Path) -> Path:
        """Writes it into a file."""
        return self.ctx.sync.run(self.ctx.artifacts.save(artifact, path))
