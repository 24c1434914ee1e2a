"""The servers of a killed test run end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.integration.owners import wait_until
from tests.processes import killed

HANGS = Path(__file__).with_name("killed_run.py")


def has_ended(pid: int) -> bool:
    """Whether a process has ended, or is a zombie; it is no child of this one."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("options", "worker"),
    [([], False), (["-n", "1"], False), (["-n", "1", "--max-worker-restart", "0"], True)],
    ids=["plain", "xdist", "a worker of xdist"],
)
def test_processes_of_a_killed_test_run_end(
    tmp_path: Path, options: list[str], *, worker: bool
) -> None:
    pids = tmp_path / "pids"
    words = ["-p", "no:cacheprovider", "--timeout", "0", *options, str(HANGS)]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env={**os.environ, "RQUEUE_PIDS": str(pids)},
        stdout=subprocess.DEVNULL,
    )
    with killed(run):
        wait_until(lambda: pids.exists() or run.poll() is not None, seconds=100)
        own, *servers = map(int, pids.read_text().split())
        assert not any(has_ended(pid) for pid in servers)

        os.kill(own if worker else run.pid, signal.SIGKILL)

        wait_until(lambda: all(has_ended(pid) for pid in [own, *servers]), seconds=60)
