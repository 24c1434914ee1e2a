"""Workers that are registered, and the hands to let them be silent."""

from __future__ import annotations

from rqueue.model.worker import Registration
from rqueue.store.fleet import register
from tests.house import House

SAID = Registration(types=("code",), capabilities=("gpu",), agents=("ada",), max_concurrent_tasks=4)


async def enrol(house: House, worker: str, run: str, said: Registration = SAID) -> bool:
    """Registers a worker; whether it is to drain."""
    return await register(house.queue.shard, worker, run, said)


async def age(house: House, worker: str, run: str, *, by_ms: int) -> None:
    """Lets a run look as if it had registered so long ago."""
    key, field = house.keys.worker(worker), f"run:{run}"
    seen, until, said = (await house.client.hget(key, field)).decode().split(" ", 2)
    await house.client.hset(key, field, f"{int(seen) - by_ms} {int(until) - by_ms} {said}")
