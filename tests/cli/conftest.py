"""Runs commands of the CLI in the process of the tests."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rqueue.cli.main import cli
from tests.harness import NAME
from tests.servers import Server


@dataclass(slots=True)
class Shell:
    """Runs commands in this process, with a server and a queue in their environment."""

    env: dict[str, str | None]

    async def run(self, *words: str, given: str | bytes | None = None) -> Result:
        """Runs a command and returns its result; `given` is its standard input."""
        # In a thread: a command runs an event loop of its own.
        return await asyncio.to_thread(
            CliRunner(env=self.env).invoke, cli, words, input=given, prog_name="rqueue"
        )

    async def lines(self, *words: str, given: str | bytes | None = None) -> list[str]:
        """The lines that a command prints. Fails if its exit code is not 0."""
        result = await self.run(*words, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    async def json(self, *words: str, given: str | bytes | None = None) -> list[Any]:
        """The documents that a command prints with --json, one a line."""
        return [json.loads(line) for line in await self.lines(*words, "--json", given=given)]


@pytest.fixture
def empty_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without variables of rqueue."""
    monkeypatch.chdir(tmp_path)
    for name in ("RQUEUE_QUEUE", "RQUEUE_REDIS_URL", "RQUEUE_TOKEN", "RQUEUE_WORKER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def shell(server: Server, empty_dir: Path) -> Shell:
    """A shell whose environment names the server and the queue."""
    return Shell({"RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME})


@pytest.fixture
def unset_shell(empty_dir: Path) -> Shell:
    """A shell whose environment names neither server nor queue."""
    return Shell({})


def columns(line: str) -> list[str]:
    return line.split()
