"""rq: SimpleWorker, which runs a job without a fork for each; four processes as its own best.

A worker has one slot: the shapes give it processes alone, and none has 100 slots. Results are
kept, as they are by default; logs from WARNING on.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from redis import Redis
from rq import Queue

from benchmarks.peers import tally
from benchmarks.peers.surroundings import URL, Unable, chunks, program

queue = Queue("bench", connection=Redis.from_url(URL))
TASKS = {"noop": tally.noop, "stamp": tally.stamp, "nap": tally.nap}
MANY = 50
OWN = 4


def workers(slots: int, processes: int) -> list[list[str]]:
    if slots > MANY:
        raise Unable("a worker has one slot")
    kind = ["--worker-class", "rq.worker.SimpleWorker"]
    return [program("rq", "worker", "bench", "--url", URL, *kind, "--quiet")] * processes


def own() -> list[list[str]]:
    return workers(1, OWN)


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers):
        queue.enqueue_many([Queue.prepare_data(TASKS[kind], (number,)) for number in some])


async def send_one(kind: str, number: int) -> None:
    queue.enqueue(TASKS[kind], number)
