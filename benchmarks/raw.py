"""The baseline: plain redis-py stream commands, pipelined."""

from __future__ import annotations

from typing import Any

from benchmarks.environment import BODY, Environment

STREAM, GROUP, BATCH = "raw", "workers", 100


async def produce(env: Environment, tasks: int) -> None:
    """Pipelined XADD in batches."""
    for _ in range(tasks // BATCH):
        pipe = env.client.pipeline(transaction=False)
        for _ in range(BATCH):
            pipe.xadd(STREAM, {"task": BODY})
        await pipe.execute()


async def consume(env: Environment, tasks: int) -> None:
    """XREADGROUP COUNT 100, then XACK and XDEL of what was read."""
    await env.client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    for _ in range(tasks // BATCH):
        reply: Any = await env.client.xreadgroup(GROUP, "w", {STREAM: ">"}, count=BATCH)
        entries = [entry for entry, _ in reply[0][1]]
        pipe = env.client.pipeline(transaction=False)
        pipe.xack(STREAM, GROUP, *entries)
        pipe.xdel(STREAM, *entries)
        await pipe.execute()


async def produce_singly(env: Environment, tasks: int) -> None:
    """One XADD at a time."""
    for _ in range(tasks):
        await env.client.xadd(STREAM, {"task": BODY})
