"""Many worker loops in one process, idle: `python -m benchmarks.peers.loops COUNT`.

Each is a whole worker: its own name, parked claim, connection and heartbeat. The process takes
part in the scheduler's election once, as every `rqueue worker` does.
"""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from benchmarks.peers.rqueue_app import queue


async def run(count: int) -> None:
    """Works until the process is ended."""
    workers = [queue.worker(concurrency=1, name=f"{os.getpid()}-{at}") for at in range(count)]
    working = [worker.run() for worker in workers]
    await asyncio.gather(queue.scheduler().run(asyncio.Event()), *working)


if __name__ == "__main__":
    uvloop.run(run(int(sys.argv[1])))
