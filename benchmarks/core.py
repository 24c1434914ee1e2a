"""What a task costs the server now, beside what it cost when there was only the core."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cycle import TASKS
from benchmarks.stand import Row, Stand, at_most

HERE = Path(__file__).parent.parent
# The tag, and the commit that it names: a clone may have come without tags.
CORE = ("core", "417dce25c9508e6c8ad6f90bf7c7ed293c2c19f3")
MICRO = 1e6
# Short turns, and more of them than other rows have: the ratio is close to its limit.
TURNS = 5


def rows(stand: Stand, runs: int) -> list[Row]:
    """Plain tasks and those with every gate in use, beside plain ones of the core; none where its
    tree cannot be had.
    """
    core = tree_of(CORE, "core")
    if core is None:
        print("the core's tree cannot be had from git here: nothing is measured beside it\n")
        return []
    url = stand.server.url
    plain, gated = [], []
    with (
        cycling(core, url, "plain") as then,
        cycling(HERE, url, "plain") as now,
        cycling(HERE, url, "gated") as gates,
    ):
        for _ in range(TURNS * runs):
            before = then()
            plain.append((now(), before))
            gated.append((gates(), before))
    unit = "us of Redis/task"
    return [
        at_most("plain tasks, now / at the core", unit, plain, 1.1),
        at_most("breaker, limit, capability, budget / plain at the core", unit, gated, 1.6),
    ]


def tree_of(names: tuple[str, ...], folder_name: str) -> Path | None:
    """A release as it was, in a folder of its own; None without git or its history."""
    if shutil.which("git") is None:
        return None
    for name in names:
        command = ["git", "archive", name, "rqueue", "lua"]
        found = subprocess.run(command, cwd=HERE, capture_output=True, check=False)
        if found.returncode == 0:
            folder = HERE / ".bench" / folder_name
            shutil.rmtree(folder, ignore_errors=True)
            with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
                archive.extractall(folder, filter="data")
            return folder
    return None


@contextmanager
def cycling(tree: Path, url: str, kind: str) -> Iterator[Callable[[], float]]:
    """A process with the code of a tree: each call is a run, and its microseconds a task."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(HERE / "benchmarks" / "cycle.py"), url, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{HERE}"},
        text=True,
    )

    def run() -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("again\n")
        process.stdin.flush()
        return float(process.stdout.readline()) / TASKS * MICRO

    with process:
        yield run
        process.communicate()
