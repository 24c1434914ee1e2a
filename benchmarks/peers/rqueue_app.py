"""rqueue with everything on: leases, state, results, priorities, and the outbox (archive).

Beside the three tasks that every peer has there are those of the measurements that only it takes.
"""

from __future__ import annotations

from benchmarks.peers import tally
from benchmarks.peers.surroundings import SLOTS, URL, chunks, module
from rqueue import Queue

queue = Queue("bench", url=URL, archive="postgres")


@queue.task("noop")
async def noop(number: int) -> None:
    tally.noop(number)


@queue.task("stamp")
async def stamp(number: int) -> None:
    tally.stamp(number)


@queue.task("nap")
async def nap(number: int) -> None:
    await tally.nap_async(number)


@queue.task("doze")
async def doze(number: int) -> None:
    await tally.doze(number, SLOTS)


@queue.task("hold")
async def hold(number: int) -> None:
    await tally.hold(number)


@queue.task("other")
async def other(number: int) -> None:
    """What registered workers wait for."""


TASKS = {task.type: task for task in (noop, stamp, nap, doze, hold, other)}


def workers(slots: int, processes: int) -> list[list[str]]:
    shape = ["--concurrency", str(slots), "--processes", str(processes)]
    return [[*module("rqueue"), "worker", "benchmarks.peers.rqueue_app:queue", *shape]]


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers):
        await queue.enqueue_many([TASKS[kind].call(number) for number in some])


async def send_one(kind: str, number: int) -> None:
    await TASKS[kind].enqueue(number)
