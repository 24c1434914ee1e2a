"""The artifacts of an attempt; what a handler stores is recorded with its task."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from rqueue.task.artifact import Artifact, Data
    from rqueue.task.ids import TaskId
    from rqueue.worker.context import Context


class Shelf(Protocol):
    """The artifact store."""

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


class ArtifactReader:
    """Reads artifacts by reference. Raises ArtifactNotFound, ArtifactDamaged if the bytes do not
    match their hash, and ArtifactsUnavailable.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def info(self, artifact: str | Artifact) -> Artifact:
        """The metadata of an artifact."""
        return (await self._shelf.info(artifact)).at(self)

    async def get(self, artifact: str | Artifact) -> bytes:
        """All of its bytes."""
        return await self._shelf.get(artifact)

    def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]:
        """Its bytes in pieces, for `async for`; raises ArtifactDamaged after the last piece."""
        return self._shelf.open(artifact)

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path:
        """Writes it to a file, completely or not at all."""
        return await self._shelf.save(artifact, path)


class Artifacts(ArtifactReader):
    """The artifacts of one attempt."""

    def __init__(self, ctx: Context, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.ctx = ctx

    async def put(
        self, data: Data, *, name: str | None = None, media_type: str | None = None
    ) -> Artifact:
        """Stores bytes, a text, a file (as a Path) or the output of an async iterator, and records
        it with the task. Raises LeaseLost if another worker may run the task; what was stored is
        removed later.
        """
        shelf = self._shelf
        found = await shelf.put(data, name=name, media_type=media_type, task=self.ctx.id)
        await self.ctx.backend.attach(found)
        return found.at(self)
