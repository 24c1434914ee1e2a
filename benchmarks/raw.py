"""The yardstick: plain redis-py stream commands, as quick as they are meant to be used."""

from __future__ import annotations

from typing import Any

from benchmarks.stand import BODY, Stand

STREAM, GROUP, BATCH = "raw", "workers", 100


async def produce(stand: Stand, tasks: int) -> None:
    """Pipelined XADD in batches."""
    for _ in range(tasks // BATCH):
        pipe = stand.client.pipeline(transaction=False)
        for _ in range(BATCH):
            pipe.xadd(STREAM, {"task": BODY})
        await pipe.execute()


async def consume(stand: Stand, tasks: int) -> None:
    """XREADGROUP COUNT 100, then XACK and XDEL of what was read."""
    await stand.client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    for _ in range(tasks // BATCH):
        reply: Any = await stand.client.xreadgroup(GROUP, "w", {STREAM: ">"}, count=BATCH)
        entries = [entry for entry, _ in reply[0][1]]
        pipe = stand.client.pipeline(transaction=False)
        pipe.xack(STREAM, GROUP, *entries)
        pipe.xdel(STREAM, *entries)
        await pipe.execute()


async def produce_singly(stand: Stand, tasks: int) -> None:
    """One XADD at a time."""
    for _ in range(tasks):
        await stand.client.xadd(STREAM, {"task": BODY})
