"""A program that sees tasks through their life in a chosen shape, with whichever rqueue it finds.

`python -P benchmarks/shapes.py URL SHAPE`, PYTHONPATH at a tree, then at this one. For each line
that it reads it sees TASKS[SHAPE] tasks through their whole life, and writes a line.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import uvloop

from benchmarks.trees import Offer, Settled, WaitingClaim, exchange_of, shard_of
from rqueue import Queue

PAYLOAD = {"data": "x" * 89}
BATCH = 100
TASKS = {"single": 100, "slot": 100, "batch": 1000}
# Under callgrind a server is fifty times slower.
CALL_SEC = 60.0


async def main(url: str, shape: str) -> None:
    """One run for each line, after a first one that loads what the server must know."""
    # Two trees take turns on one server: each has a queue of its own.
    async with Queue(f"bench{os.getpid() % 1000:03}", url=url, call_timeout_sec=CALL_SEC) as queue:
        waiter = WaitingClaim(shard_of(queue), "w", Offer.of(), name="w", lasts=True)
        await live(queue, waiter, shape)
        print("ready", flush=True)
        for _ in sys.stdin:
            await live(queue, waiter, shape)
            print("done", flush=True)


async def live(queue: Queue, waiter: Any, shape: str) -> None:
    """The whole life of this shape's tasks."""
    if shape == "single":
        await live_singly(queue, TASKS[shape])
    else:
        await live_in_turns(queue, waiter, TASKS[shape], BATCH if shape == "batch" else 1)


async def live_singly(queue: Queue, tasks: int) -> None:
    """Enqueue, claim, start and complete, a call each."""
    for _ in range(tasks):
        await queue.enqueue("noop", PAYLOAD)
        (lease,) = await queue.claim(worker="w")
        await lease.start()
        await lease.complete()


async def live_in_turns(queue: Queue, waiter: Any, tasks: int, batch: int) -> None:
    """As a worker with `batch` slots has it: each exchange settles what the one before claimed."""
    call: Any = queue.call("noop", PAYLOAD)
    for _ in range(tasks // batch):
        await queue.enqueue_many([call] * batch)
    done: list[Any] = []
    for _ in range(tasks // batch):
        grants = (await exchange_of(waiter)(done, batch)).answer.grants
        assert len(grants) == batch
        done = [Settled(grant.task, grant.token, b"") for grant in grants]
    await exchange_of(waiter)(done, 0)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
