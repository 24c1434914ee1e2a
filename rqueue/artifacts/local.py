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

    def opened(self, open_file: Callable[[Path], IO[bytes]]) -> IO[bytes]:
        """Returns the file, which `open_file` opens."""
        file = open_file(self.path)
        # The lock does not cover the opening: on a hanging disk it would block `drop`.
        with self.lock:
            self.file = file
            late = self.dropped
        if late:
            self.drop()
        return file

    def drop(self) -> None:
        """Closes and removes the file. A finished file was renamed and is not affected."""
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
    """Files by name. Writes are atomic: a temporary file is written, synced and renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        """Stores the chunks as one file; nothing is stored if they raise."""
        part = Part(self.path / f"{PART}{name}.{secrets.token_hex(4)}")
        try:
            file = await self.in_thread(part.opened, self.temporary)
            async for piece in pieces:
                await self.in_thread(file.write, piece)
            await self.in_thread(self.finished, file, self.path / name)
        finally:
            part.drop()

    async def read(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yields the chunks of a file. Raises FileNotFoundError."""
        try:
            file = await asyncio.to_thread((self.path / name).open, "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unavailable(error) from error
        with file:
            while piece := await self.in_thread(file.read, PIECE):
                yield piece

    async def remove(self, names: Sequence[str]) -> None:
        """Removes files, also half-written ones. Missing files are ignored."""

        def work() -> None:
            gone = frozenset(names)
            for entry in os.listdir(self.path):
                if whole(entry) in gone:
                    (self.path / entry).unlink(missing_ok=True)

        await self.in_thread(work)

    async def pages(self, before: str) -> AsyncGenerator[list[str], None]:
        """Yields the names below one, sorted, in pages."""
        found = await self.in_thread(self.listed, before)
        for start in range(0, len(found), PAGE):
            yield found[start : start + PAGE]

    def listed(self, before: str) -> list[str]:
        """Returns the names below one, sorted; empty if the directory does not exist yet."""
        if not self.path.is_dir():
            return []
        names = map(whole, os.listdir(self.path))
        return sorted({name for name in names if name < before})

    def temporary(self, part: Path) -> IO[bytes]:
        """Opens a temporary file for writing."""
        self.path.mkdir(parents=True, exist_ok=True)
        return part.open("wb")

    def finished(self, file: IO[bytes], target: Path) -> None:
        """Syncs a file to the disk and renames it durably."""
        file.flush()
        os.fsync(file.fileno())
        file.close()
        Path(file.name).replace(target)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    async def in_thread(self, work: Callable[..., T], *given: object) -> T:
        """Returns the result of a call that may block on the disk, made in a thread. Raises
        ArtifactsUnavailable for an OSError.
        """
        try:
            return await asyncio.to_thread(work, *given)
        except OSError as error:
            raise unavailable(error) from error


def whole(entry: str) -> str:
    """Returns the name of a file; for a half-written one, its intended name."""
    return entry.removeprefix(PART).rpartition(".")[0] if entry.startswith(PART) else entry


def unavailable(error: OSError) -> ArtifactsUnavailable:
    """Returns the ArtifactsUnavailable for an error of the file system."""
    return ArtifactsUnavailable(f"{error.strerror or type(error).__name__}: {error.filename or ''}")
