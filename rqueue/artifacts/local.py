"""Artifacts in a directory."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, TypeVar

from rqueue.errors import ArtifactsUnavailable

T = TypeVar("T")

PIECE = 1 << 20
# Prefix of files that are being written or whose writer died. No id begins with it.
PART = ".part-"
PAGE = 1000


class Part:
    """A file that is being written. It may be dropped while a thread still opens it; the later of
    the two closes and removes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] | None = None
        self.dropped = False
        self.lock = Lock()

    def opened(self, begun: Callable[[Path], IO[bytes]]) -> IO[bytes]:
        """The file, which `begun` opens."""
        file = begun(self.path)
        # The lock does not cover the opening: on a hanging disk it would block `drop`.
        with self.lock:
            self.file = file
            late = self.dropped
        if late:
            self.drop()
        return file

    def drop(self) -> None:
        """Closes and removes it; a finished file was renamed and is not affected."""
        with self.lock:
            self.dropped = True
            file = self.file
        if file is None:
            return
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            self.path.unlink()


class Local:
    """Files by name. Writes are atomic: to a temporary file, which is synced and renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        """Stores the chunks as one file; nothing is stored if they raise."""
        part = Part(self.path / f"{PART}{name}.{secrets.token_hex(4)}")
        try:
            file = await self.done(part.opened, self.begun)
            async for piece in pieces:
                await self.done(file.write, piece)
            await self.done(self.finished, file, self.path / name)
        finally:
            part.drop()

    async def read(self, name: str) -> AsyncGenerator[bytes, None]:
        """The chunks of a file; raises FileNotFoundError."""
        try:
            file = await asyncio.to_thread((self.path / name).open, "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unavailable(error) from error
        with file:
            while piece := await self.done(file.read, PIECE):
                yield piece

    async def remove(self, names: Sequence[str]) -> None:
        """Removes files, half-written ones too; one that is not there is removed already."""

        def work() -> None:
            gone = frozenset(names)
            for entry in os.listdir(self.path):
                if whole(entry) in gone:
                    (self.path / entry).unlink(missing_ok=True)

        await self.done(work)

    async def pages(self, before: str) -> AsyncGenerator[list[str], None]:
        """The names below one, in order."""
        found = await self.done(self.listed, before)
        for start in range(0, len(found), PAGE):
            yield found[start : start + PAGE]

    def listed(self, before: str) -> list[str]:
        """The same at once; nothing where nothing was kept yet."""
        if not self.path.is_dir():
            return []
        names = map(whole, os.listdir(self.path))
        return sorted({name for name in names if name < before})

    def begun(self, part: Path) -> IO[bytes]:
        """A file to write into."""
        self.path.mkdir(parents=True, exist_ok=True)
        return part.open("wb")

    def finished(self, file: IO[bytes], target: Path) -> None:
        """Brings a file to the disk and gives it its name, for good."""
        file.flush()
        os.fsync(file.fileno())
        file.close()
        Path(file.name).replace(target)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    async def done(self, work: Callable[..., T], *given: object) -> T:
        """What a call gives that may wait for the disk; ArtifactsUnavailable where it cannot."""
        try:
            return await asyncio.to_thread(work, *given)
        except OSError as error:
            raise unavailable(error) from error


def whole(entry: str) -> str:
    """The name of a file, or that which a half-written one was to have."""
    return entry.removeprefix(PART).rpartition(".")[0] if entry.startswith(PART) else entry


def unavailable(error: OSError) -> ArtifactsUnavailable:
    """What an error of the file system means."""
    return ArtifactsUnavailable(f"{error.strerror or type(error).__name__}: {error.filename or ''}")
