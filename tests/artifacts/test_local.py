"""Artifacts in a directory: crashes, full disks and foreign files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rqueue.artifacts import local
from rqueue.artifacts.local import PART, Local
from rqueue.artifacts.place import Directory, Rules
from rqueue.artifacts.shelf import Shelf
from rqueue.errors import ArtifactNotFound, ArtifactsUnavailable, StoreUnavailable

WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from rqueue.artifacts.shelf import Shelf
from rqueue.artifacts.place import Directory, Rules

async def endless():
    for _ in range(3):
        yield b"x" * (1 << 20)
    os.kill(os.getpid(), signal.SIGKILL)
    yield b""

shelf = Shelf(Directory(Path(sys.argv[1])), Rules(), queue="rq/sales")
asyncio.run(shelf.put(endless()))
"""


def shelf_in(path: Path) -> Shelf:
    return Shelf(Directory(path), Rules(), queue="rq/sales")


def test_a_killed_writer_leaves_no_half_artifact(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", WRITER, tmp_path], check=False)

    assert ended.returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    assert left.startswith(PART)


async def test_files_of_a_killed_writer_are_listed_by_id_and_removed(tmp_path: Path) -> None:
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, tmp_path)
    await writer.wait()
    place = Local(tmp_path)

    (name,) = [name async for page in place.pages("b") for name in page]
    with pytest.raises(ArtifactNotFound):
        await shelf_in(tmp_path).get(name)
    await place.remove([name])

    assert os.listdir(tmp_path) == []


async def test_a_file_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(number: int) -> None:
        kind = "folder" if os.path.isdir(f"/proc/self/fd/{number}") else "file"
        order.append(kind)
        fsync(number)

    def renamed(path: Path, target: Any) -> Path:
        order.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)

    await shelf_in(tmp_path).put(b"hello")

    assert order == ["file", "rename", "folder"] * 2


async def test_a_full_disk_is_a_retryable_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(local.Local):
        def temporary(self, part: Path) -> Any:
            # The kernel's own full disk; the temporary file exists as usual.
            super().temporary(part).close()
            return open("/dev/full", "wb")

    shelf = shelf_in(tmp_path)
    monkeypatch.setitem(vars(shelf), "medium", Full(tmp_path))

    for size in (10, 1 << 20):
        with pytest.raises(ArtifactsUnavailable, match="No space left") as error:
            await shelf.put(b"x" * size)
        assert isinstance(error.value, StoreUnavailable)

    assert os.listdir(tmp_path) == []


async def test_a_put_that_is_cancelled_while_its_file_is_opened_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go, opened = threading.Event(), threading.Event(), threading.Event()
    files: list[Any] = []

    class Slow(local.Local):
        def temporary(self, part: Path) -> Any:
            opening.set()
            go.wait(10)
            files.append(super().temporary(part))
            opened.set()
            return files[0]

    shelf = shelf_in(tmp_path)
    monkeypatch.setitem(vars(shelf), "medium", Slow(tmp_path))
    putting = asyncio.create_task(shelf.put(b"hello"))
    await asyncio.to_thread(opening.wait, 10)

    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    go.set()
    await asyncio.to_thread(opened.wait, 10)
    # When its pool is shut down, the thread has dropped the file.
    await asyncio.get_running_loop().shutdown_default_executor()

    assert os.listdir(tmp_path) == []
    assert files[0].closed


async def test_an_unwritable_directory_is_a_retryable_error(tmp_path: Path) -> None:
    # A file instead of the directory, because root ignores permissions.
    (tmp_path / "kept").write_text("in the way")

    with pytest.raises(ArtifactsUnavailable, match="kept"):
        await shelf_in(tmp_path / "kept").put(b"hello")
    with pytest.raises(ArtifactsUnavailable):
        await shelf_in(tmp_path / "kept" / "below").put(b"hello")


async def test_concurrent_writers_of_one_name_do_not_mix(tmp_path: Path) -> None:
    place = Local(tmp_path)

    async def slowly(letter: bytes) -> Any:
        for _ in range(3):
            yield letter
            other = b"b" if letter == b"a" else None
            if other:
                await place.write("same", slowly(other))

    await place.write("same", slowly(b"a"))

    assert (tmp_path / "same").read_bytes() == b"aaa"
    assert os.listdir(tmp_path) == ["same"]
