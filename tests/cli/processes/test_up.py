"""`rqueue up`: starts all processes and stops them on Ctrl-C."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rqueue.cli.output import next_steps
from rqueue.embedded import watcher
from tests.cli.terminal import ENTER_SCREEN, terminal
from tests.postgres import Database
from tests.queue.until import until
from tests.servers import Server

UP = (sys.executable, "-m", "rqueue", "up")
# 60 orders in each of 12 waves, each charged and packed, a third with a photo; and a stocktaking.
DONE = 12 * (60 + 60 + 20 + 1)


def environment(**more: str) -> dict[str, str]:
    """An environment without variables of rqueue."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RQUEUE_")}
    return {**own, **more}


def run(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.timeout(180)
def test_the_demo_completes_and_every_command_it_prints_works(tmp_path: Path) -> None:
    found = run(*UP, "--demo", cwd=tmp_path)

    assert (found.returncode, found.stderr) == (0, "")
    assert f"COMPLETED {DONE}" in found.stdout
    assert "archive on the embedded PostgreSQL in .rqueue/postgres\n" in found.stdout
    assert "kept in PostgreSQL: .rqueue/postgres" in found.stdout
    commands = re.findall(r"^ {4}(.+)$", found.stdout, re.MULTILINE)
    assert len(commands) == len(next_steps.STEPS)
    for command in commands:
        result = run("sh", "-c", command, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, ""), command
        assert result.stdout, command


def test_the_demo_uses_configured_servers(tmp_path: Path, valkey: Server, pg: Database) -> None:
    url = pg.url.replace("rqueue@", "rqueue:secret@")

    found = run(*UP, "--demo", cwd=tmp_path, RQUEUE_REDIS_URL=valkey.url, RQUEUE_POSTGRES_URL=url)

    assert found.returncode == 0, found.stderr
    assert valkey.url in found.stdout
    assert f"archive on {url.replace('secret', '***')}\n" in found.stdout
    assert "RQUEUE_EMBEDDED" not in found.stdout
    assert not (tmp_path / ".rqueue").exists()


def test_a_server_in_rqueue_yaml_is_used(tmp_path: Path, valkey: Server) -> None:
    (tmp_path / "rqueue.yaml").write_text(f"url: {valkey.url}\n")

    found = run(*UP, "--demo", cwd=tmp_path)

    assert found.returncode == 0, found.stderr
    assert "archive on" not in found.stdout
    assert not (tmp_path / ".rqueue").exists()


@pytest.mark.parametrize("key", [b"\x03", b"q"], ids=["Ctrl-C", "q"])
async def test_one_key_in_a_terminal_ends_all_processes(tmp_path: Path, *, key: bytes) -> None:
    with terminal((*UP, "--demo"), env=environment(), cwd=tmp_path) as shown:
        await shown.shows(ENTER_SCREEN)
        await shown.shows(b"COMPLETED")
        folders = (tmp_path / ".rqueue", tmp_path / ".rqueue" / "postgres")
        watchers = [int((folder / watcher.WATCHER).read_text()) for folder in folders]
        shown.press(key)

        assert await shown.end() == 0
        assert shown.clean
        assert b"next steps" in shown.written

        async def have_ended() -> bool:
            return not any(watcher.is_running(None, pid) for pid in watchers)

        await until(have_ended)
        assert not (tmp_path / ".rqueue" / "valkey.sock").exists()


@pytest.mark.parametrize("words", [(), ("shop:queue", "--demo")], ids=["neither", "both"])
def test_either_a_queue_or_the_demo_is_required(tmp_path: Path, words: tuple[str, ...]) -> None:
    found = run(*UP, *words, cwd=tmp_path)

    assert found.returncode == 5
    assert "--demo" in found.stderr


def test_the_program_is_printed_as_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a b" / "rqueue"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])

    monkeypatch.setenv("PATH", "/nowhere")
    assert next_steps.program() == "'a b/rqueue'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert next_steps.program() == "rqueue"
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", "/nowhere")
    assert next_steps.program() == "./rqueue"
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "argv", ["/x/rqueue/__main__.py"])
    assert next_steps.program().endswith(" -m rqueue")
