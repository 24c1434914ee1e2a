"""A program that runs tasks in a chosen way, with this tree or with an earlier one.

`python -P benchmarks/shapes.py URL SHAPE`, PYTHONPATH has that tree, then this one. For each
input line it submits, claims and completes TASKS[SHAPE] tasks, and prints a line.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import uvloop

from benchmarks.compat import Offer, Settled, WaitingClaim, exchange_of, shard_of
from rqueue import Queue

PAYLOAD = {"data": "x" * 89}
BATCH = 100
TASKS = {"single": 100, "slot": 100, "batch": 1000}
# A server is fifty times slower under callgrind.
CALL_SEC = 60.0


async def main(url: str, shape: str) -> None:
    """One run for each line, after a first run that loads scripts or functions."""
    # Two trees alternate on one server, so each has its own queue.
    async with Queue(f"bench{os.getpid() % 1000:03}", url=url, call_timeout_sec=CALL_SEC) as queue:
        claim = WaitingClaim(shard_of(queue), "w", Offer.of(), name="w", lasts=True)
        await run(queue, claim, shape)
        print("ready", flush=True)
        for _ in sys.stdin:
            await run(queue, claim, shape)
            print("done", flush=True)


async def run(queue: Queue, claim: Any, shape: str) -> None:
    """Submits, claims and completes the tasks of a shape."""
    if shape == "single":
        await run_singly(queue, TASKS[shape])
    else:
        await run_exchanges(queue, claim, TASKS[shape], BATCH if shape == "batch" else 1)


async def run_singly(queue: Queue, tasks: int) -> None:
    """Enqueue, claim, start and complete, a call each."""
    for _ in range(tasks):
        await queue.enqueue("noop", PAYLOAD)
        (lease,) = await queue.claim(worker="w")
        await lease.start()
        await lease.complete()


async def run_exchanges(queue: Queue, claim: Any, tasks: int, batch: int) -> None:
    """As a worker with `batch` slots: each exchange settles what the one before has claimed."""
    call: Any = queue.call("noop", PAYLOAD)
    for _ in range(tasks // batch):
        await queue.enqueue_many([call] * batch)
    done: list[Any] = []
    for _ in range(tasks // batch):
        grants = (await exchange_of(claim)(done, batch)).answer.grants
        assert len(grants) == batch
        done = [Settled(grant.task, grant.token, b"") for grant in grants]
    await exchange_of(claim)(done, 0)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
