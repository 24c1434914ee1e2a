"""rqueue with everything on: leases, state, results, priorities, and the outbox (archive).

It has the three tasks of every peer, and those of the measurements of rqueue only.
"""

from __future__ import annotations

from benchmarks.peers import counters
from benchmarks.peers.app import SLOTS, URL, chunks, module
from rqueue import Queue

queue = Queue("bench", url=URL, archive="postgres")


@queue.task("noop")
async def noop(number: int) -> None:
    counters.noop(number)


@queue.task("stamp")
async def stamp(number: int) -> None:
    counters.stamp(number)


@queue.task("nap")
async def nap(number: int) -> None:
    await counters.nap_async(number)


@queue.task("doze")
async def doze(number: int) -> None:
    await counters.doze(number, SLOTS)


@queue.task("hold")
async def hold(number: int) -> None:
    await counters.hold(number)


@queue.task("other")
async def other(number: int) -> None:
    """The type of the waiting claims of registered workers."""


TASKS = {task.type: task for task in (noop, stamp, nap, doze, hold, other)}


def workers(slots: int, processes: int) -> list[list[str]]:
    shape = ["--concurrency", str(slots), "--processes", str(processes)]
    return [[*module("rqueue"), "worker", "benchmarks.peers.rqueue_app:queue", *shape]]


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers):
        await queue.enqueue_many([TASKS[kind].call(number) for number in some])


async def send_one(kind: str, number: int) -> None:
    await TASKS[kind].enqueue(number)
