"""The data of an artifact as chunks of bytes, and its default name and media type."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from pathlib import Path
from typing import TYPE_CHECKING

from rqueue.errors import ArtifactRefused
from rqueue.task.artifact import BINARY

if TYPE_CHECKING:
    from rqueue.task.artifact import Data

PIECE = 1 << 20
TEXT = "text/plain; charset=utf-8"
# The default name.
NAMELESS = "data"


def titled(data: Data, name: str | None, media_type: str | None) -> dict[str, str]:
    """The name and the media type, given or derived from the data."""
    import mimetypes  # noqa: PLC0415 - only what puts artifacts needs it

    called = name or (data.name if isinstance(data, Path) else NAMELESS)
    guessed, _ = mimetypes.guess_type(called)
    return {
        "name": called,
        "media_type": media_type or guessed or (TEXT if isinstance(data, str) else BINARY),
    }


def pieces_of(data: object) -> AsyncGenerator[bytes, None]:
    """The data in chunks; raises ArtifactRefused for an unsupported type."""
    match data:
        case str():
            return sliced(memoryview(data.encode()))
        case bytes() | bytearray() | memoryview():
            return sliced(memoryview(data).cast("B"))
        case Path():
            return read(data)
        case AsyncIterable():
            return gathered(data)
        case _:
            rule = f"is bytes, a text, a Path or an async iterator, not {type(data).__name__}"
            raise ArtifactRefused("data", rule)


async def one_piece(data: bytes) -> AsyncGenerator[bytes, None]:
    """The bytes as a single chunk."""
    yield data


async def sliced(view: memoryview) -> AsyncGenerator[bytes, None]:
    """A buffer in chunks."""
    for start in range(0, len(view), PIECE):
        yield bytes(view[start : start + PIECE])


async def read(path: Path) -> AsyncGenerator[bytes, None]:
    """The content of a file in chunks."""
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        rule = f"{path} cannot be read: {error.strerror or type(error).__name__}"
        raise ArtifactRefused("data", rule) from error
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece


async def gathered(source: AsyncIterable[object]) -> AsyncGenerator[bytes, None]:
    """The output of an iterator, in chunks of at least PIECE bytes."""
    waiting = bytearray()
    async for piece in source:
        if not isinstance(piece, bytes | bytearray | memoryview):
            rule = f"gives {type(piece).__name__}, and an artifact is made of bytes"
            raise ArtifactRefused("data", rule)
        waiting += piece
        if len(waiting) >= PIECE:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)
