"""The server's cost of a task, compared with v0.1.0, which had no function library.

With valgrind callgrind counts instructions, which do not depend on the load of the machine; without
it INFO gives the processor time, in alternating runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from benchmarks.core import HERE, tree_of
from benchmarks.shapes import TASKS
from benchmarks.table import Row, at_most
from rqueue import embedded
from tests.servers import Server, pings, redis_program, spawn, wait

if TYPE_CHECKING:
    from benchmarks.environment import Environment

# The tag and its commit, because a clone may have no tags.
BEFORE = ("v0.1.0", "fb58b9de123f112d2d82d23dedac5d69f1b5cd68")
LIMITS = {
    "single": ("one task at a time: enqueue, claim, start, complete", 0.80),
    "slot": ("a worker with one slot, enqueue included", 0.85),
    "batch": ("batches of 100", 1.0),
}
# Under callgrind runs differ only by the growth of hash tables, which the median excludes.
CALLGRIND_RUNS = 3
THOUSAND, MICRO = 1e3, 1e6
TOTALS = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)

Counter = Callable[[Callable[[], None]], float]


def rows(env: Environment, runs: int) -> list[Row]:
    """A row for each shape; none if the tree of v0.1.0 is not available."""
    before = tree_of(BEFORE, "v0.1.0")
    if before is None:
        print("git does not have the tree of v0.1.0: its rows are left out\n")
        return []
    with ExitStack() as stack:
        if shutil.which("valgrind"):
            url, counter = stack.enter_context(callgrind(env.server.kind))
            unit, scale, count = "thousand instructions/task", 1 / THOUSAND, CALLGRIND_RUNS
        else:
            url, counter = env.server.url, cpu_counter(env.server.plain_url)
            unit, scale, count = "us of Redis/task", MICRO, 5 * runs
        found = []
        for shape, (what, most) in LIMITS.items():
            costs = compared(before, url, shape, counter=counter, runs=count)
            each = scale / TASKS[shape]
            scaled = [(now * each, then * each) for now, then in costs]
            found.append(at_most(f"{what}, now / v0.1.0", unit, scaled, most))
        return found


def compared(
    before: Path, url: str, shape: str, *, counter: Counter, runs: int
) -> list[tuple[float, float]]:
    """The cost of a run now and before, in alternating runs."""
    with running(HERE, url, shape) as now, running(before, url, shape) as then:
        return [(counter(now), counter(then)) for _ in range(runs)]


@contextmanager
def running(tree: Path, url: str, shape: str) -> Iterator[Callable[[], None]]:
    """A process with the code of a tree; each call is a run."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(HERE / "benchmarks" / "shapes.py"), url, shape],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{HERE}"},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = process.stdout

    def run() -> None:
        assert process.stdin is not None
        process.stdin.write("again\n")
        process.stdin.flush()
        assert lines.readline() == "done\n"

    with process:
        assert lines.readline() == "ready\n"
        yield run
        process.communicate()


@contextmanager
def callgrind(kind: str) -> Iterator[tuple[str, Counter]]:
    """A server under callgrind, and a function that counts the instructions of a run."""
    program = str(embedded.binary()) if kind == "valkey" else redis_program()
    folder = Path(tempfile.mkdtemp(prefix="rqueue-callgrind-"))
    socket, out = folder / "server.sock", folder / "callgrind.out"
    command = [
        "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}",
        program, "--save", "", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder),
        # The server's cron runs by the clock: callgrind would count it for the tasks.
        "--hz", "1",
    ]  # fmt: skip
    server = spawn(command, folder)

    def control(*words: str) -> None:
        command = ["callgrind_control", *words, str(server.pid)]
        subprocess.run(command, check=True, capture_output=True)

    def count(run: Callable[[], None]) -> float:
        for old in folder.glob("callgrind.out*"):
            old.unlink()
        control("--instr=on")
        run()
        control("--instr=off")
        control("--dump")
        found = [TOTALS.findall(path.read_text()) for path in folder.glob("callgrind.out*")]
        return float(sum(int(totals[-1]) for totals in found if totals))

    try:
        with redis.Redis.from_url(f"unix://{socket}", protocol=2) as client:
            wait(lambda: pings(client), Server(kind, "", server))
        yield f"unix://{socket}", count
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def cpu_counter(url: str) -> Counter:
    """A function that measures the server's processor time for a run, in seconds."""

    def count(run: Callable[[], None]) -> float:
        with redis.Redis.from_url(url, protocol=2) as client:
            before = cpu(client)
            run()
            return cpu(client) - before

    return count


def cpu(client: redis.Redis) -> float:
    """The server's processor time so far, in seconds."""
    info = client.info("cpu")
    return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])
