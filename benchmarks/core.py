"""The server time of a task, compared with that of the tree at the tag `core`."""

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
from typing import TYPE_CHECKING

from benchmarks.cycle import TASKS
from benchmarks.table import Row, at_most

if TYPE_CHECKING:
    from benchmarks.environment import Environment

HERE = Path(__file__).parent.parent
# The tag and its commit, because a clone may have no tags.
CORE = ("core", "417dce25c9508e6c8ad6f90bf7c7ed293c2c19f3")
MICRO = 1e6
# More and shorter runs than other rows have, because the ratio is close to its limit.
SHORT_RUNS = 5


def rows(env: Environment, runs: int) -> list[Row]:
    """Plain tasks, and tasks with every kind of gate, compared with plain tasks at the tag `core`.
    No rows if that tree is not available.
    """
    core = tree_of(CORE, "core")
    if core is None:
        print("git does not have the tree of the tag core: its rows are left out\n")
        return []
    url = env.server.url
    plain, gated = [], []
    with (
        cycling(core, url, "plain") as then,
        cycling(HERE, url, "plain") as now,
        cycling(HERE, url, "gated") as gates,
    ):
        for _ in range(SHORT_RUNS * runs):
            before = then()
            plain.append((now(), before))
            gated.append((gates(), before))
    unit = "us of Redis/task"
    return [
        at_most("plain tasks, now / tag core", unit, plain, 1.1),
        at_most(
            "breaker, limit, capability, budget, now / plain tasks, tag core", unit, gated, 1.6
        ),
    ]


def tree_of(names: tuple[str, ...], folder_name: str) -> Path | None:
    """The files of a release in a new folder; None without git or its history."""
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
    """A process with the code of a tree. Each call is a run and returns its microseconds a task."""
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
