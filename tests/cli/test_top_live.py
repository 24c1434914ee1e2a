"""`rqueue top` in a real terminal: how it ends, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import INTO, terminal
from tests.harness import NAME, Harness
from tests.servers import Server

TOP = (sys.executable, "-m", "rqueue", "top", "--interval", "0.1")


def environment(server: Server) -> dict[str, str]:
    return {**os.environ, "RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME}


@pytest.mark.parametrize(("how", "code"), [("q", 0), ("Ctrl-C", 130), ("SIGTERM", 143)])
async def test_it_ends_as_asked_and_leaves_the_terminal_clean(
    alone: Harness, valkey: Server, tmp_path: Path, *, how: str, code: int
) -> None:
    await alone.queue.enqueue("code")

    with terminal(TOP, env=environment(valkey), cwd=tmp_path) as shown:
        await shown.shows(INTO)
        await shown.shows(b"READY 1")
        if how == "SIGTERM":
            shown.process.send_signal(signal.SIGTERM)
        else:
            shown.press(b"q" if how == "q" else b"\x03")

        assert await shown.end() == code
        assert shown.clean


async def test_a_program_gets_a_document_in_each_interval(alone: Harness, valkey: Server) -> None:
    await alone.queue.enqueue("code")
    started = await asyncio.create_subprocess_exec(
        *TOP, "--json", stdout=asyncio.subprocess.PIPE, env=environment(valkey)
    )
    assert started.stdout is not None
    first, second = [json.loads(await started.stdout.readline()) for _ in range(2)]
    started.send_signal(signal.SIGINT)
    await started.communicate()

    assert (first["completed_per_sec"], second["completed_per_sec"]) == (None, 0)
    assert started.returncode == 130
