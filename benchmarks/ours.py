"""The same work through the queue."""

from __future__ import annotations

import random

from benchmarks.stand import PAYLOAD, Stand
from rqueue.core import leases
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import Settled
from rqueue.task.lane import Offer
from rqueue.task.spec import Call

BATCH = 100


async def produce(stand: Stand, tasks: int) -> None:
    """enqueue_many in batches."""
    call = Call("noop", PAYLOAD)
    for _ in range(tasks // BATCH):
        await stand.queue.enqueue_many([call] * BATCH)


async def produce_singly(stand: Stand, tasks: int) -> None:
    """One enqueue at a time."""
    for _ in range(tasks):
        await stand.queue.enqueue("noop", PAYLOAD)


async def produce_lanes(stand: Stand, tasks: int, lanes: int) -> None:
    """Random priorities over many types."""
    dice = random.Random(7)
    for _ in range(tasks // 500):
        await stand.queue.enqueue_many(
            Call(f"type-{dice.randrange(lanes)}", PAYLOAD, {"priority": dice.randrange(101)})
            for _ in range(500)
        )


def worker(stand: Stand) -> WaitingClaim:
    """A worker's own conversation, as its loop will hold it."""
    return WaitingClaim(stand.queue._internals.shard, "w1", Offer(), name="w1", lasts=True)


async def claim(waiter: WaitingClaim, tasks: int, batch: int) -> list[list[Settled]]:
    """Claims with start, in batches; what is to be settled."""
    taken = []
    for _ in range(tasks // batch):
        answer = await waiter.claim(batch, start=True)
        assert len(answer.grants) == batch
        taken.append([Settled(grant.task, grant.token, b"") for grant in answer.grants])
    return taken


async def live(stand: Stand, tasks: int) -> None:
    """The whole life in batches: submit, claim with start, complete, outbox."""
    await produce(stand, tasks)
    waiter = worker(stand)
    for _ in range(tasks // BATCH):
        (batch,) = await claim(waiter, BATCH, BATCH)
        words = await leases.complete(stand.queue._internals.shard, batch)
        assert words == ["OK"] * BATCH
