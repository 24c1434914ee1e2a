"""What a worker does again and again beside its turns."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError
from rqueue.model.attempt import Reason
from rqueue.services.pace import AHEAD_SEC

if TYPE_CHECKING:
    from rqueue.services.worker import Worker

LOOK_SEC = 0.1
# How many running attempts are looked at in a second: their number must not become the work.
LOOKS_PER_SEC = 20_000


async def look(worker: Worker) -> None:
    """Says that the event loop turns, and stops what runs too long."""
    while True:
        worker.beat.turn()
        for running in worker.slots.overdue():
            running.stop(Reason.TIMEOUT)
        await asyncio.sleep(LOOK_SEC + len(worker.slots.running) / LOOKS_PER_SEC)


async def tidy(worker: Worker) -> None:
    """Gives back what found no slot in time, and tells of what has found one. Apart from `look`,
    which must not wait for a server that is away.
    """
    while True:
        await worker.release(worker.slots.take_back(2 * AHEAD_SEC))
        with suppress(RQueueError):
            await worker.ahead.tell(worker.slots.running)
        await asyncio.sleep(LOOK_SEC)
