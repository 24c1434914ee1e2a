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
    from rqueue.services.slots import Running
    from rqueue.services.worker import Worker

LOG = logging.getLogger("rqueue.worker")
LOOK_SEC = 0.1
# What was told to stop gets at least so long to do it.
LEAST_GRACE_SEC = 1.0
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
    """Says that the event loop turns, stops what runs too long, and waits no more for what does
    not stop.
    """
    grace_sec = max(worker.parts.settings.timeout_grace_sec, LEAST_GRACE_SEC)
    while True:
        worker.beat.turn()
        for running in worker.slots.overdue():
            running.stop(Reason.TIMEOUT)
        for running in worker.slots.deaf(grace_sec):
            give_up(worker, running)
        await asyncio.sleep(LOOK_SEC + len(worker.slots.running) / LOOKS_PER_SEC)


def give_up(worker: Worker, running: Running) -> None:
    """Ends an attempt whose code goes on although it was told to stop: a coroutine that swallows
    its cancel holds its slot, but not its task.
    """
    worker.slots.give_up(running)
    worker.desk.ledger.stuck(running.grant, running.stopped)
    # Without a token it was settled before it ran.
    worker.ended(running, worker.desk.stopped(running) if running.grant.token else None)


async def tidy(worker: Worker) -> None:
    """Gives back what found no slot in time, and tells of what has found one. Apart from `look`,
    which must not wait for a server that is away.
    """
    while True:
        await worker.release(worker.slots.take_back(2 * AHEAD_SEC))
        with suppress(RQueueError):
            await worker.ahead.tell(worker.slots.running)
        await asyncio.sleep(LOOK_SEC)
