"""Runs the tests that an output must pass: a program with its words, never a shell, in a process
group of its own that does not outlive the check.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import STDOUT, Process
from contextlib import suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Of what a program says, its last words are kept.
TAIL_BYTES = 3000
READ_BYTES = 65536
LAST_WORDS_SEC = 1.0
# Of the worker's environment a program gets these: the rest may hold passwords.
KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


class Ran(NamedTuple):
    """How a program ended: its exit code, None where its time was up, and its last words."""

    code: int | None
    tail: str


async def run(words: Sequence[str], folder: Path, given: bytes, limit_sec: float) -> Ran:
    """Runs a program to its end, or for so long; it may read what is given. OSError where it cannot
    be started. Cancelled or not, all that it has started is killed when this returns.
    """
    process, said = await started(words, folder, given)
    tail = bytearray()
    reading = asyncio.ensure_future(read(said, tail))
    code: int | None = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_sec):
                code = await process.wait()
    finally:
        # What it has left behind goes, too: it would run on for nobody.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
        await asyncio.wait([reading], timeout=LAST_WORDS_SEC)
        reading.cancel()
    return Ran(code, tail.decode(errors="replace").strip())


async def started(words: Sequence[str], folder: Path, given: bytes) -> tuple[Process, BinaryIO]:
    """A program that has begun, and where it speaks. The pipe is ours: asyncio's own would hold up
    the news of its end while anything that it has started still has the other side.
    """
    ours, theirs = os.pipe()
    said = os.fdopen(ours, "rb", 0)
    try:
        with TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            process = await asyncio.create_subprocess_exec(
                *words, cwd=folder, env=environment(),
                stdin=file, stdout=theirs, stderr=STDOUT, start_new_session=True,
            )  # fmt: skip
    except BaseException:
        said.close()
        raise
    finally:
        os.close(theirs)
    return process, said


async def read(said: BinaryIO, tail: bytearray) -> None:
    """Reads all that a program says and keeps the end of it."""
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), said)
    try:
        while more := await stream.read(READ_BYTES):
            tail += more
            del tail[:-TAIL_BYTES]
    finally:
        transport.close()


def environment() -> dict[str, str]:
    """What a program is told of its surroundings."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def folder_of(root: Path, cwd: str) -> Path | None:
    """The directory that a task names, if it is the root or below it, links followed."""
    base = root.resolve()
    found = (base / cwd).resolve()
    return found if found.is_relative_to(base) else None
