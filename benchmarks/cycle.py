"""A program that runs tasks with this tree, or with the tree at the tag `core`.

`python -P benchmarks/cycle.py URL plain|gated`, PYTHONPATH has that tree, then
this one. For each input line it empties the server, submits, claims and completes tasks, and prints
the processor seconds of the server.
"""

from __future__ import annotations

import sys
from typing import Any

import uvloop
from redis import asyncio as aredis

from benchmarks.compat import Offer, Settled, WaitingClaim, exchange_of, shard_of
from rqueue import Queue

TASKS = 5_000
BATCH = 100
PAYLOAD = {"data": "x" * 89}
# Too high to hold a task back: the cost of checking it is measured.
LIMIT = {"type": "noop", "rate": 1_000_000, "per_sec": 1, "at_once": 1_000_000}
PLAIN: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
# The settings of a queue with every kind of gate, and the options of its tasks.
GATED: tuple[dict[str, Any], dict[str, Any]] = (
    {"breakers": {}, "limits": [LIMIT]},
    {"required_capabilities": ["gpu", "browser"], "estimated_cost_usd": 0.01},
)


async def main(url: str, kind: str) -> None:
    """One run for each line."""
    settings, options = GATED if kind == "gated" else PLAIN
    client = aredis.Redis.from_url(url, protocol=2)
    for number, _ in enumerate(sys.stdin):
        await client.flushall()
        async with Queue("core", url=url, archive="postgres", **settings) as queue:
            if kind == "gated":
                # Breakers are checked if any breaker exists, also of another type.
                await queue.limits.open_breaker("another", 600)
                await queue.budgets.set(1_000_000)
                await queue.budgets.set(1_000_000, worker=f"w{number}")
            before = await cpu(client)
            await run(queue, f"w{number}", options)
            print(await cpu(client) - before, flush=True)
    await client.aclose()


async def run(queue: Queue, name: str, options: dict[str, Any]) -> None:
    """Bulk submits, then exchanges of a worker: each settles what the one before has claimed."""
    call = queue.call("noop", PAYLOAD, **options)
    for _ in range(TASKS // BATCH):
        await queue.enqueue_many([call] * BATCH)
    offer = Offer.of(capabilities=options.get("required_capabilities", ()))
    worker = WaitingClaim(shard_of(queue), name, offer, name=name, lasts=True)
    done: list[Any] = []
    for _ in range(TASKS // BATCH):
        grants = (await exchange_of(worker)(done, BATCH)).answer.grants
        done = [Settled(grant.task, grant.token, b"") for grant in grants]
        assert len(done) == BATCH
    last = await exchange_of(worker)(done, 0)
    assert last.words == ["OK"] * BATCH


async def cpu(client: Any) -> float:
    """The server's processor time so far, in seconds."""
    info = await client.info("cpu")
    return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
