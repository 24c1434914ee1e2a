"""`rqueue archive export -o`: what stands at the place stays what it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rqueue.task.task import Task
from tests.archive.reading.library import Library
from tests.cli.conftest import Shell
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server

SOME = 65_536


@pytest.fixture
def shell(valkey: Server, pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell that knows both servers, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return Shell({
        "RQUEUE_REDIS_URL": valkey.url, "RQUEUE_POSTGRES_URL": pg.url, "RQUEUE_QUEUE": NAME,
    })  # fmt: skip


@pytest.fixture
async def ended(one_library: Library) -> Task:
    """A task that is in the archive."""
    found = await one_library.completed()
    await one_library.moved()
    return found


@pytest.fixture
def pipe(shell: Shell) -> Iterator[int]:
    """A pipe with a name; what is written into it waits here for its reader."""
    os.mkfifo("pipe")
    end = os.open("pipe", os.O_RDWR | os.O_NONBLOCK)
    yield end
    os.close(end)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_link_stays_a_link_and_its_file_has_the_export(
    ended: Task, shell: Shell, tmp_path: Path
) -> None:
    folder, link = tmp_path / "kept", tmp_path / "link.jsonl"
    folder.mkdir()
    (folder / "real.jsonl").write_text("before")
    link.symlink_to("kept/real.jsonl")

    await shell.lines("archive", "export", "--format", "jsonl", "-o", "link.jsonl")

    assert link.is_symlink()
    assert json.loads(link.read_text())["id"] == ended.id
    assert names(folder) == ["real.jsonl"]


async def test_a_pipe_is_written_into(ended: Task, shell: Shell, tmp_path: Path, pipe: int) -> None:
    await shell.lines("archive", "export", "--format", "jsonl", "-o", "pipe")

    assert json.loads(os.read(pipe, SOME))["id"] == ended.id
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["pipe"]


async def test_parquet_into_a_pipe_is_wrong_usage(
    ended: Task, shell: Shell, tmp_path: Path, pipe: int
) -> None:
    result = await shell.run("archive", "export", "--format", "parquet", "-o", "pipe")

    assert (result.exit_code, (tmp_path / "pipe").is_fifo()) == (2, True)
    assert "pipe cannot be written: " in result.stderr
    assert "None" not in result.stderr


async def test_a_device_is_written_into(ended: Task, shell: Shell, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    link = tmp_path / "terminal"
    link.symlink_to(os.ttyname(theirs))

    await shell.lines("archive", "export", "--format", "jsonl", "-o", "terminal")

    assert json.loads(os.read(ours, SOME))["id"] == ended.id
    assert link.is_symlink()
    for end in (ours, theirs):
        os.close(end)
