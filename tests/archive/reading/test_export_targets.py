"""`rqueue archive export -o`: links, pipes and devices as targets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rqueue.task.task import Task
from tests.archive.reading.reader_harness import ReaderHarness
from tests.cli.conftest import Shell
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server

SOME = 65_536


@pytest.fixture
def shell(valkey: Server, pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell with the URLs of both servers, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return Shell({
        "RQUEUE_REDIS_URL": valkey.url, "RQUEUE_POSTGRES_URL": pg.url, "RQUEUE_QUEUE": NAME,
    })  # fmt: skip


@pytest.fixture
async def ended(pg_env: ReaderHarness) -> Task:
    """Archives a task."""
    found = await pg_env.completed()
    await pg_env.moved()
    return found


@pytest.fixture
def pipe(shell: Shell) -> Iterator[int]:
    """A named pipe, opened for reading."""
    os.mkfifo("pipe")
    end = os.open("pipe", os.O_RDWR | os.O_NONBLOCK)
    yield end
    os.close(end)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_symlink_is_followed_and_stays_a_symlink(
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


async def test_a_pipe_receives_the_export(
    ended: Task, shell: Shell, tmp_path: Path, pipe: int
) -> None:
    await shell.lines("archive", "export", "--format", "jsonl", "-o", "pipe")

    assert json.loads(os.read(pipe, SOME))["id"] == ended.id
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["pipe"]


async def test_parquet_into_a_pipe_is_a_usage_error(
    ended: Task, shell: Shell, tmp_path: Path, pipe: int
) -> None:
    result = await shell.run("archive", "export", "--format", "parquet", "-o", "pipe")

    assert (result.exit_code, (tmp_path / "pipe").is_fifo()) == (2, True)
    assert "pipe cannot be written: " in result.stderr
    assert "None" not in result.stderr


async def test_a_device_receives_the_export(ended: Task, shell: Shell, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    link = tmp_path / "terminal"
    link.symlink_to(os.ttyname(theirs))

    await shell.lines("archive", "export", "--format", "jsonl", "-o", "terminal")

    assert json.loads(os.read(ours, SOME))["id"] == ended.id
    assert link.is_symlink()
    for end in (ours, theirs):
        os.close(end)
