"""The measured operations of rqueue."""

from __future__ import annotations

import random

from benchmarks.environment import PAYLOAD, Environment
from rqueue.core import leases
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import Settled
from rqueue.task.lane import Offer
from rqueue.task.spec import Call

BATCH = 100


async def produce(env: Environment, tasks: int) -> None:
    """enqueue_many in batches."""
    call = Call("noop", PAYLOAD)
    for _ in range(tasks // BATCH):
        await env.queue.enqueue_many([call] * BATCH)


async def produce_singly(env: Environment, tasks: int) -> None:
    """One enqueue at a time."""
    for _ in range(tasks):
        await env.queue.enqueue("noop", PAYLOAD)


async def produce_lanes(env: Environment, tasks: int, lanes: int) -> None:
    """Random priorities over many types."""
    rng = random.Random(7)
    for _ in range(tasks // 500):
        await env.queue.enqueue_many(
            Call(f"type-{rng.randrange(lanes)}", PAYLOAD, {"priority": rng.randrange(101)})
            for _ in range(500)
        )


def worker(env: Environment) -> WaitingClaim:
    """The claim of a worker."""
    return WaitingClaim(env.queue._internals.shard, "w1", Offer(), name="w1", lasts=True)


async def claim(waiting: WaitingClaim, tasks: int, batch: int) -> list[list[Settled]]:
    """Claims with start, in batches. Returns the settles of each batch."""
    taken = []
    for _ in range(tasks // batch):
        answer = await waiting.claim(batch, start=True)
        assert len(answer.grants) == batch
        taken.append([Settled(grant.task, grant.token, b"") for grant in answer.grants])
    return taken


async def run(env: Environment, tasks: int) -> None:
    """Submit, claim with start, complete and outbox, in batches."""
    await produce(env, tasks)
    waiting = worker(env)
    for _ in range(tasks // BATCH):
        (batch,) = await claim(waiting, BATCH, BATCH)
        words = await leases.complete(env.queue._internals.shard, batch)
        assert words == ["OK"] * BATCH
