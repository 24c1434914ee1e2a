"""Registers many workers with a queue: `python -m benchmarks.peers.registered COUNT`.

Each has claimed and completed a task, so that it is a consumer of the group, and has a waiting
claim for that type that lasts longer than the measurement, so that no process has to repeat it.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.peers.rqueue_app import other, queue, send_all
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import Settled
from rqueue.task.lane import Offer

WAIT_MS = 900_000


async def register(count: int) -> None:
    """All claim before the first one waits, because a waiting claim would get the next task."""
    await send_all(other.type, list(range(count)))
    claims = [worker(f"registered-{at}") for at in range(count)]
    grants = [(await claim.claim(1, start=True)).grants[0] for claim in claims]
    for claim, grant in zip(claims, grants, strict=True):
        done = [Settled(grant.task, grant.token, b"")]
        answer = await claim.exchange(done, 1, wait_ms=WAIT_MS)
        if answer.words != ["OK"] or not answer.answer.wait_ms:
            raise SystemExit(f"{claim.consumer} does not wait: {answer}")


def worker(name: str) -> WaitingClaim:
    """The claim of a worker."""
    return WaitingClaim(queue._internals.shard, name, Offer.of([other.type]), name=name, lasts=True)


if __name__ == "__main__":
    asyncio.run(register(int(sys.argv[1])))
