"""What a worker does again and again beside its turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError
from rqueue.model.attempt import Reason
from rqueue.policy.fault import told
from rqueue.services.pace import AHEAD_SEC

if TYPE_CHECKING:
    from rqueue.services.worker import Worker

LOG = logging.getLogger("rqueue.worker")
LOOK_SEC = 0.1
# How many running attempts are looked at in a second: their number must not become the work.
LOOKS_PER_SEC = 20_000


async def kept(body: Callable[[], Awaitable[None]]) -> None:
    """Runs a loop of a worker, and runs it again should it break: without it the worker would be
    deaf, or stop nothing any more, and nobody would notice.
    """
    while True:
        try:
            await body()
        except Exception as error:
            # Whatever it is, the loop must go on; a cancel is no Exception and ends it.
            LOG.error("a loop of the worker broke; it goes on", extra=told(error))
        await asyncio.sleep(LOOK_SEC)


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
