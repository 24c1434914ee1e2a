"""The baseline: a plain redis-py stream loop without a queue.

XREADGROUP COUNT 100 (blocking when the stream is empty), the tasks one after the other, one XACK
and one XDEL for all that were read. It has no slots: a process is one loop in every shape. uvloop,
hiredis.
"""

from __future__ import annotations

import os
from typing import Any

import uvloop
from redis import asyncio as aredis
from redis.exceptions import ResponseError

from benchmarks.peers import counters
from benchmarks.peers.app import URL, chunks, module, use_uvloop

STREAM, GROUP, BATCH, BLOCK_MS = "raw", "workers", 100, 1000
TASKS = {b"noop": counters.noop, b"stamp": counters.stamp}

use_uvloop()
client: Any = aredis.Redis.from_url(URL, protocol=2)


def workers(slots: int, processes: int) -> list[list[str]]:
    return [module("benchmarks.peers.raw_app")] * processes


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers, BATCH):
        pipe = client.pipeline(transaction=False)
        for number in some:
            pipe.xadd(STREAM, {"kind": kind, "number": number})
        await pipe.execute()


async def send_one(kind: str, number: int) -> None:
    await client.xadd(STREAM, {"kind": kind, "number": number})


async def consume(name: str) -> None:
    """Reads, runs and acknowledges tasks without end."""
    try:
        await client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
    while True:
        reply = await client.xreadgroup(GROUP, name, {STREAM: ">"}, count=BATCH, block=BLOCK_MS)
        for _, entries in reply or ():
            for _, fields in entries:
                TASKS[fields[b"kind"]](int(fields[b"number"]))
            ids = [entry for entry, _ in entries]
            pipe = client.pipeline(transaction=False)
            pipe.xack(STREAM, GROUP, *ids)
            pipe.xdel(STREAM, *ids)
            await pipe.execute()


def main() -> None:
    uvloop.run(consume(str(os.getpid())))


if __name__ == "__main__":
    main()
