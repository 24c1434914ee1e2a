"""celery: the threads pool in the shapes, a prefork pool of two as its best configuration.

A prefetch of 4 a slot (its default; 1 and 100 were not better); no gossip, mingle or heartbeat;
logs from WARNING on. Results are off, as they are without a backend. Two processes of five slots
are two workers. The nap acknowledges late: a task acknowledged early is lost with its worker by
design.
"""

# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from celery import Celery

from benchmarks.peers import counters
from benchmarks.peers.app import URL, program

PREFETCH = 4

app = Celery("bench", broker=URL)
TASKS = {
    "noop": app.task(counters.noop, name="noop", ignore_result=True),
    "stamp": app.task(counters.stamp, name="stamp", ignore_result=True),
    "nap": app.task(
        counters.nap, name="nap", acks_late=True, reject_on_worker_lost=True, ignore_result=True
    ),
}


def workers(slots: int, processes: int) -> list[list[str]]:
    return [worker("threads", slots, name=f"w{at}") for at in range(processes)]


def own() -> list[list[str]]:
    return [worker("prefork", 2, name="w")]


def worker(pool: str, slots: int, *, name: str) -> list[str]:
    shape = ["--pool", pool, "--concurrency", str(slots), "--prefetch-multiplier", str(PREFETCH)]
    bare = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
    home = ["-A", "benchmarks.peers.celery_app:app", "worker", "-n", f"{name}@%h"]
    return program("celery", *home, *shape, *bare)


async def send_all(kind: str, numbers: list[int]) -> None:
    with app.producer_or_acquire() as producer:
        for number in numbers:
            TASKS[kind].apply_async((number,), producer=producer)


async def send_one(kind: str, number: int) -> None:
    TASKS[kind].apply_async((number,))
