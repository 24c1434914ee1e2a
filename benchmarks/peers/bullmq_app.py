"""bullmq, the Python package: as many slots as the shape has, uvloop, hiredis.

It has no command: a worker is this file. Ended jobs are kept, as they are by default. Two
processes are two workers.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import signal
from typing import Any

import uvloop
from bullmq import Queue, Worker

from benchmarks.peers import counters
from benchmarks.peers.app import SLOTS, URL, chunks, module, use_uvloop


class Producer:
    """The producer's queue, created at the first call because it needs a running loop."""

    queue: Any = None


def queue() -> Any:
    if Producer.queue is None:
        Producer.queue = Queue("bench", {"connection": URL})
    return Producer.queue


use_uvloop()


def workers(slots: int, processes: int) -> list[list[str]]:
    return [module("benchmarks.peers.bullmq_app")] * processes


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers):
        await queue().addBulk([{"name": kind, "data": {"number": number}} for number in some])


async def send_one(kind: str, number: int) -> None:
    await queue().add(kind, {"number": number})


async def process(job: Any, token: str) -> None:
    """The processor of all three tasks."""
    number = int(job.data["number"])
    if job.name == "nap":
        await counters.nap_async(number)
    else:
        {"noop": counters.noop, "stamp": counters.stamp}[job.name](number)


async def work() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = Worker("bench", process, {"connection": URL, "concurrency": SLOTS})
    await stopped.wait()
    await worker.close(force=True)


if __name__ == "__main__":
    uvloop.run(work())
