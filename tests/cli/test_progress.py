"""Signs of progress: for a person in front, beside what is printed, and never for a program."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.cli.terminal import terminal
from tests.harness import NAME, Harness
from tests.servers import Server


async def written(server: Server, folder: Path, *words: str) -> bytes:
    """All that a command writes in a terminal."""
    env = {**os.environ, "RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME}
    with terminal((sys.executable, "-m", "rqueue", *words), env=env, cwd=folder) as shown:
        assert await shown.end() == 0
        return bytes(shown.written)


async def test_a_person_sees_a_bar_and_a_program_does_not(
    alone: Harness, valkey: Server, tmp_path: Path
) -> None:
    (tmp_path / "tasks").write_text('{"type": "code"}\n{"type": "code"}\n')

    seen = await written(valkey, tmp_path, "enqueue", "--file", "tasks")
    read = await written(valkey, tmp_path, "enqueue", "--file", "tasks", "--json")

    assert b"enqueue" in seen
    assert b"\x1b" not in read
    assert [json.loads(line)["created"] for line in read.splitlines()] == [True, True]


async def test_a_sweep_shows_that_it_goes_on_to_a_person_alone(
    alone: Harness, valkey: Server, tmp_path: Path
) -> None:
    await alone.queue.enqueue("code")
    seen = await written(valkey, tmp_path, "cancel", "--all")
    await alone.queue.enqueue("code")
    read = await written(valkey, tmp_path, "cancel", "--all", "--json")

    assert b"\x1b[?25l" in seen
    assert json.loads(read)["done"] == 1
