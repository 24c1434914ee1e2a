"""Registered workers, and how to make them silent."""

from __future__ import annotations

from rqueue.core.workers import Registration, register
from tests.harness import Harness

OFFER = Registration(
    types=("code",), capabilities=("gpu",), agents=("ada",), max_concurrent_tasks=4
)


async def register_worker(
    harness: Harness, worker: str, run: str, facts: Registration = OFFER
) -> bool:
    """Registers a worker; returns whether it is to drain."""
    return await register(harness.queue._internals.shard, worker, run, facts)


async def age(harness: Harness, worker: str, run: str, *, by_ms: int) -> None:
    """Moves the registration of a run into the past."""
    key, field = harness.keys.worker(worker), f"run:{run}"
    seen, until, facts = (await harness.client.hget(key, field)).decode().split(" ", 2)
    await harness.client.hset(key, field, f"{int(seen) - by_ms} {int(until) - by_ms} {facts}")
