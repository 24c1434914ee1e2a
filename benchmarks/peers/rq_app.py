"""rq: SimpleWorker, which does not fork for each job; four processes as its best configuration.

A worker has one slot: a shape sets its number of processes only, and 100 slots are not supported.
Results are kept, as they are by default; logs from WARNING on.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from redis import Redis
from rq import Queue

from benchmarks.peers import counters
from benchmarks.peers.app import URL, Unsupported, chunks, program

queue = Queue("bench", connection=Redis.from_url(URL))
TASKS = {"noop": counters.noop, "stamp": counters.stamp, "nap": counters.nap}
MANY = 50
OWN = 4


def workers(slots: int, processes: int) -> list[list[str]]:
    if slots > MANY:
        raise Unsupported("a worker has one slot")
    kind = ["--worker-class", "rq.worker.SimpleWorker"]
    return [program("rq", "worker", "bench", "--url", URL, *kind, "--quiet")] * processes


def own() -> list[list[str]]:
    return workers(1, OWN)


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers):
        queue.enqueue_many([Queue.prepare_data(TASKS[kind], (number,)) for number in some])


async def send_one(kind: str, number: int) -> None:
    queue.enqueue(TASKS[kind], number)
