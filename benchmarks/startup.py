"""How long a process takes until it can do something, beside the import of what it is built on.

Processor time, user and system, of fresh interpreters in alternating turns, with their bytecode
written before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

from benchmarks.stand import Row, at_most, middle

TURNS = 5
MS = 1000
LIMIT = 1.5
QUEUE_MS = 20
BUILT_ON = ("-c", "import pydantic, redis.asyncio")
# Prints what the queue takes. What the imports have left to Python's collector is collected before:
# a full collection takes 30 ms, and falls into the queue or not by a few objects more or less.
FIRST_QUEUE = """
import gc, time
from rqueue import Queue
gc.collect()
begin = time.process_time()
Queue("shop", url="redis://localhost:1")
print(time.process_time() - begin)
"""
COMMAND = ("-m", "rqueue")
# What is typed before the tab key.
TYPED = (
    "rqueue ",
    "rqueue dag ",
    "rqueue dead list --",
    "rqueue worker --",
    "rqueue task --",
    "rqueue archive search --",
)


class Started(NamedTuple):
    """A process to be measured: its arguments and variables."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = {}


def completion(typed: str) -> Started:
    """The process in which bash asks what may follow."""
    at = str(len(typed.split(" ")) - 1)
    return Started(
        COMMAND, {"_RQUEUE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": at}
    )


STARTED = {
    "import rqueue": Started(("-c", "import rqueue")),
    "rqueue --help": Started((*COMMAND, "--help")),
    **{f"completion of `{typed}`": completion(typed) for typed in TYPED},
}
# Without a target: `import pydantic` loads nothing that makes a model, and a queue has settings.
SHOWN = {
    "from pydantic import BaseModel": Started(
        ("-c", "import redis.asyncio; from pydantic import BaseModel, Field, TypeAdapter")
    ),
    "from rqueue import Queue": Started(("-c", "from rqueue import Queue")),
}


def rows(runs: int) -> list[Row]:
    """A row for each start."""
    processes = {**STARTED, **SHOWN}
    base = Started(BUILT_ON)
    for one in (base, *processes.values()):
        cost(one)
    pairs: dict[str, list[tuple[float, float]]] = {what: [] for what in processes}
    first: list[float] = []
    for _ in range(TURNS * runs):
        raw = cost(base)
        for what, one in processes.items():
            pairs[what].append((cost(one), raw))
        first.append(float(output(Started(("-c", FIRST_QUEUE)))) * MS)
    found = [at_most(f"{what} / pydantic and redis", "ms", pairs[what], LIMIT) for what in STARTED]
    took = median(first)
    found.append(
        Row("the first Queue(...)", "ms", took, None, f"<= {QUEUE_MS} ms", took / QUEUE_MS,
            took <= QUEUE_MS)
    )  # fmt: skip
    for what in SHOWN:
        ours, raw, ratio = middle(pairs[what])
        found.append(Row(f"{what} / pydantic and redis", "ms", ours, raw, "", ratio, reached=True))
    return found


def cost(one: Started) -> float:
    """The processor time of the process, in milliseconds."""
    before = getrusage(RUSAGE_CHILDREN)
    output(one)
    after = getrusage(RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * MS


def output(one: Started) -> str:
    """What the process prints."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(
        [sys.executable, *one.words],
        env={**env, **one.variables}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout
