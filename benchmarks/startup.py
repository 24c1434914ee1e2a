"""The start-up time of processes, compared with importing pydantic and redis-py.

Processor time, user and system, of fresh interpreters in alternating runs, with bytecode already
written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

from benchmarks.table import Row, at_most, medians

SHORT_RUNS = 5
MS = 1000
LIMIT = 1.5
QUEUE_MS = 20
BUILT_ON = ("-c", "import pydantic, redis.asyncio")
# Prints the seconds that the queue takes. The garbage of the imports is collected before: a full
# collection takes 30 ms, and might otherwise happen while the queue is made.
FIRST_QUEUE = """
import gc, time
from rqueue import Queue
gc.collect()
begin = time.process_time()
Queue("shop", url="redis://localhost:1")
print(time.process_time() - begin)
"""
COMMAND = ("-m", "rqueue")
# Command lines that are completed.
TYPED = (
    "rqueue ",
    "rqueue dag ",
    "rqueue dead list --",
    "rqueue worker --",
    "rqueue task --",
    "rqueue archive search --",
)


class Process(NamedTuple):
    """A measured process: its arguments and environment variables."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = {}


def completion(typed: str) -> Process:
    """The process that bash starts to complete a command line."""
    at = str(len(typed.split(" ")) - 1)
    return Process(
        COMMAND, {"_RQUEUE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": at}
    )


MEASURED = {
    "import rqueue": Process(("-c", "import rqueue")),
    "rqueue --help": Process((*COMMAND, "--help")),
    **{f"completion of `{typed}`": completion(typed) for typed in TYPED},
}
# Without a target: `import pydantic` does not load what defines models, and a queue has settings,
# which are a model.
NO_TARGET = {
    "from pydantic import BaseModel": Process(
        ("-c", "import redis.asyncio; from pydantic import BaseModel, Field, TypeAdapter")
    ),
    "from rqueue import Queue": Process(("-c", "from rqueue import Queue")),
}


def rows(runs: int) -> list[Row]:
    """A row for each process, and one for the first queue."""
    processes = {**MEASURED, **NO_TARGET}
    base = Process(BUILT_ON)
    for one in (base, *processes.values()):
        cost(one)
    pairs: dict[str, list[tuple[float, float]]] = {what: [] for what in processes}
    first: list[float] = []
    for _ in range(SHORT_RUNS * runs):
        base_ms = cost(base)
        for what, one in processes.items():
            pairs[what].append((cost(one), base_ms))
        first.append(float(output(Process(("-c", FIRST_QUEUE)))) * MS)
    found = [at_most(f"{what} / pydantic and redis", "ms", pairs[what], LIMIT) for what in MEASURED]
    took = median(first)
    found.append(
        Row("the first Queue(...)", "ms", took, None, f"<= {QUEUE_MS} ms", took / QUEUE_MS,
            took <= QUEUE_MS)
    )  # fmt: skip
    for what in NO_TARGET:
        ours, base_ms, ratio = medians(pairs[what])
        found.append(Row(f"{what} / pydantic and redis", "ms", ours, base_ms, "", ratio, met=True))
    return found


def cost(one: Process) -> float:
    """The processor time of the process, in milliseconds."""
    before = getrusage(RUSAGE_CHILDREN)
    output(one)
    after = getrusage(RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * MS


def output(one: Process) -> str:
    """What the process prints."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(
        [sys.executable, *one.words],
        env={**env, **one.variables}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout
