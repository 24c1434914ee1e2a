"""streaq: as many slots as the shape has, a prefetch of 100 more, uvloop, silent tasks.

Results are kept for five minutes, as they are by default.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from streaq import Worker

from benchmarks.peers import counters
from benchmarks.peers.app import SLOTS, URL, chunks, program

PREFETCH = 100

worker: Any = Worker(
    redis_url=URL,
    queue_name="bench",
    concurrency=SLOTS,
    prefetch=PREFETCH,
    anyio_kwargs={"use_uvloop": True},
)


async def noop(number: int) -> None:
    counters.noop(number)


async def stamp(number: int) -> None:
    counters.stamp(number)


TASKS = {
    "noop": worker.task(name="noop", silent=True)(noop),
    "stamp": worker.task(name="stamp", silent=True)(stamp),
    "nap": worker.task(name="nap", silent=True)(counters.nap_async),
}


def workers(slots: int, processes: int) -> list[list[str]]:
    home = "benchmarks.peers.streaq_app:worker"
    return [program("streaq", "run", home, "--workers", str(processes))]


async def send_all(kind: str, numbers: list[int]) -> None:
    await open_once()
    for some in chunks(numbers):
        await worker.enqueue_many([TASKS[kind].enqueue(number) for number in some])


async def send_one(kind: str, number: int) -> None:
    await open_once()
    await TASKS[kind].enqueue(number)


class Opened:
    """The producer's connection, opened at the first call and left to the end of the process."""

    stack: AsyncExitStack | None = None


async def open_once() -> None:
    if Opened.stack is None:
        Opened.stack = AsyncExitStack()
        await Opened.stack.enter_async_context(worker)
