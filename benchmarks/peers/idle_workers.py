"""Many idle worker loops in one process: `python -m benchmarks.peers.idle_workers COUNT`.

Each is a complete worker with its own name, waiting claim, connection and heartbeat. The process
runs one scheduler, as every `rqueue worker` does.
"""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from benchmarks.peers.rqueue_app import queue


async def run(count: int) -> None:
    """Runs until the process is ended."""
    workers = [queue.worker(concurrency=1, name=f"{os.getpid()}-{at}") for at in range(count)]
    working = [worker.run() for worker in workers]
    await asyncio.gather(queue.scheduler().run(asyncio.Event()), *working)


if __name__ == "__main__":
    uvloop.run(run(int(sys.argv[1])))
