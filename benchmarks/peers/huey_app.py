"""huey: blocking reads; threads in the shapes, ten processes as its best configuration.

Results are on by default, and a task without a result stores none. One consumer has threads or
processes, not both: two processes of five slots are two consumers. No periodic tasks.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from huey import RedisHuey

from benchmarks.peers import counters
from benchmarks.peers.app import URL, program

huey = RedisHuey("bench", url=URL)
TASKS = {
    "noop": huey.task(name="noop")(counters.noop),
    "stamp": huey.task(name="stamp")(counters.stamp),
    "nap": huey.task(name="nap")(counters.nap),
}


def workers(slots: int, processes: int) -> list[list[str]]:
    return [consumer("thread", slots)] * processes


def own() -> list[list[str]]:
    return [consumer("process", 10)]


def consumer(kind: str, count: int) -> list[str]:
    shape = ["--worker-type", kind, "--workers", str(count)]
    return program("huey_consumer", "benchmarks.peers.huey_app.huey", *shape, "-q", "-n")


async def send_all(kind: str, numbers: list[int]) -> None:
    for number in numbers:
        TASKS[kind](number)


async def send_one(kind: str, number: int) -> None:
    TASKS[kind](number)
