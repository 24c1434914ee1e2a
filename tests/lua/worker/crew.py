"""Workers that are registered, and the hands to let them be silent."""

from __future__ import annotations

from rqueue.core.workers import Registration, register
from tests.harness import Harness

SAID = Registration(types=("code",), capabilities=("gpu",), agents=("ada",), max_concurrent_tasks=4)


async def enrol(harness: Harness, worker: str, run: str, said: Registration = SAID) -> bool:
    """Registers a worker; whether it is to drain."""
    return await register(harness.queue._internals.shard, worker, run, said)


async def age(harness: Harness, worker: str, run: str, *, by_ms: int) -> None:
    """Lets a run look as if it had registered so long ago."""
    key, field = harness.keys.worker(worker), f"run:{run}"
    seen, until, said = (await harness.client.hget(key, field)).decode().split(" ", 2)
    await harness.client.hset(key, field, f"{int(seen) - by_ms} {int(until) - by_ms} {said}")
