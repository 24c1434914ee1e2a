"""Runs test commands on outputs: a program with its arguments, never a shell, in a process group
that does not outlive the check.
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

# The end of a program's output is kept.
TAIL_BYTES = 3000
READ_BYTES = 65536
LAST_OUTPUT_SEC = 1.0
# The environment variables that a program gets; others may hold passwords.
KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


class ProgramResult(NamedTuple):
    """How a program ended: its exit code, None on timeout, and the end of its output."""

    code: int | None
    tail: str


async def run(words: Sequence[str], folder: Path, given: bytes, limit_sec: float) -> ProgramResult:
    """Runs a program until it ends or the time is over, with `given` on standard input. Raises
    OSError if it cannot be started. In any case its process group is killed when this returns.
    """
    process, output = await started(words, folder, given)
    tail = bytearray()
    reading = asyncio.ensure_future(read(output, tail))
    code: int | None = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_sec):
                code = await process.wait()
    finally:
        # Processes that the program started would run on.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
        await asyncio.wait([reading], timeout=LAST_OUTPUT_SEC)
        reading.cancel()
    return ProgramResult(code, tail.decode(errors="replace").strip())


async def started(words: Sequence[str], folder: Path, given: bytes) -> tuple[Process, BinaryIO]:
    """A started program, and the pipe of its output. asyncio's own pipe would delay the program's
    end while a process that it started keeps the pipe open.
    """
    ours, theirs = os.pipe()
    output = os.fdopen(ours, "rb", 0)
    try:
        with TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            process = await asyncio.create_subprocess_exec(
                *words, cwd=folder, env=environment(),
                stdin=file, stdout=theirs, stderr=STDOUT, start_new_session=True,
            )  # fmt: skip
    except BaseException:
        output.close()
        raise
    finally:
        os.close(theirs)
    return process, output


async def read(output: BinaryIO, tail: bytearray) -> None:
    """Reads all output and keeps the end of it."""
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), output
    )
    try:
        while more := await stream.read(READ_BYTES):
            tail += more
            del tail[:-TAIL_BYTES]
    finally:
        transport.close()


def environment() -> dict[str, str]:
    """The environment of a program."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def folder_of(root: Path, cwd: str) -> Path | None:
    """The directory that a task names, if it is the root or below it, with symbolic links
    resolved.
    """
    base = root.resolve()
    found = (base / cwd).resolve()
    return found if found.is_relative_to(base) else None
