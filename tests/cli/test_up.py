"""`rqueue up`: one command, and a fleet is at work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_does_its_work_and_says_what_to_do_next(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("RQUEUE_")}

    found = subprocess.run(
        [sys.executable, "-m", "rqueue", "up", "--demo"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert found.returncode == 0, found.stderr
    assert "COMPLETED 1680" in found.stdout
    assert "what to do next" in found.stdout
    assert (tmp_path / ".rqueue").is_dir()


def test_without_a_queue_it_says_what_to_name(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "rqueue", "up"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == 5
    assert "--demo" in found.stderr
