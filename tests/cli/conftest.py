"""A shell in front of a house: commands are run as people type them."""

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
        """A command's result, whatever its exit code; `given` is what it reads."""
        # In a thread: a command runs an event loop of its own.
        return await asyncio.to_thread(
            CliRunner(env=self.env).invoke, cli, words, input=given, prog_name="rqueue"
        )

    async def lines(self, *words: str, given: str | bytes | None = None) -> list[str]:
        """The lines that a command prints; it must end well."""
        result = await self.run(*words, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    async def json(self, *words: str, given: str | bytes | None = None) -> list[Any]:
        """The documents that a command prints with --json, one a line."""
        return [json.loads(line) for line in await self.lines(*words, "--json", given=given)]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory: no rqueue.yaml of anyone decides."""
    monkeypatch.chdir(tmp_path)
    for name in ("RQUEUE_QUEUE", "RQUEUE_REDIS_URL", "RQUEUE_TOKEN", "RQUEUE_WORKER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def shell(server: Server, nowhere: Path) -> Shell:
    """A shell on each server in turn."""
    return Shell({"RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME})


@pytest.fixture
def lost_shell(nowhere: Path) -> Shell:
    """A shell that knows neither server nor queue."""
    return Shell({})
