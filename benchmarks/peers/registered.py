"""Makes a queue know many workers: `python -m benchmarks.peers.registered COUNT`.

Each has claimed and completed a task, so that it is a consumer of the group, and has parked a
claim for more of that type, which outlasts the measurement: no process has to renew it.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.peers.rqueue_app import other, queue, send_all
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import Settled
from rqueue.task.lane import Offer

PARK_MS = 900_000


async def register(count: int) -> None:
    """All claim before one parks: what is enqueued for the next would be brought to it."""
    await send_all(other.type, list(range(count)))
    waiters = [worker(f"registered-{at}") for at in range(count)]
    given = [(await waiter.claim(1, start=True)).grants[0] for waiter in waiters]
    for waiter, grant in zip(waiters, given, strict=True):
        done = [Settled(grant.task, grant.token, b"")]
        turned = await waiter.exchange(done, 1, wait_ms=PARK_MS)
        if turned.words != ["OK"] or not turned.answer.wait_ms:
            raise SystemExit(f"{waiter.consumer} is not parked: {turned}")


def worker(name: str) -> WaitingClaim:
    """A worker's own conversation."""
    return WaitingClaim(queue._internals.shard, name, Offer.of([other.type]), name=name, lasts=True)


if __name__ == "__main__":
    asyncio.run(register(int(sys.argv[1])))
