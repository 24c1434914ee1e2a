"""How a worker ends: it gives back what it has, and does not wait for a server that is gone."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from rqueue.services.slots import RELEASED
from rqueue.services.stopping import ended

if TYPE_CHECKING:
    from rqueue.services.worker import Worker

LOG = logging.getLogger("rqueue.worker")
LOOK_SEC = 0.1
# A server that is silent for so long is not waited for by who has nothing else to do.
PATIENCE_SEC = 1.0


async def work_to_the_end(worker: Worker) -> None:
    """Works until all is told and given back. What a server that is gone cannot be told comes back
    when its leases expire.
    """
    working = asyncio.create_task(worker.work())
    ending = asyncio.create_task(worker.ending.wait())
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        since = time.monotonic()
        while not working.done():
            if not waits_for_server(worker):
                since = time.monotonic()
            elif time.monotonic() - since > PATIENCE_SEC:
                say(worker)
                return
            await asyncio.wait({working}, timeout=LOOK_SEC)
        working.result()
    finally:
        await ended([working, ending])


def waits_for_server(worker: Worker) -> bool:
    """Whether one that ends has nothing left to do but to tell so; until the grace is over, what
    has finished is worth waiting for.
    """
    if worker.stopping:
        return not worker.left or bool(worker.held)
    return not worker.slots.busy and not worker.held


def say(worker: Worker) -> None:
    """What is left behind, if anything is."""
    if worker.held:
        LOG.warning(
            "server away at the end; what is in hand comes back when its leases expire",
            extra={"leases": len(worker.held)},
        )


async def leave(worker: Worker) -> None:
    """Takes back the parked claim first: what is given back would be brought to it."""
    turned = await worker.turned(0)
    stopping = worker.stopping
    given = [grant for grant in turned.answer.grants if grant.task not in worker.held]
    given += worker.slots.ready
    worker.slots.ready.clear()
    if stopping:
        worker.desk.places.children.kill()
        running = list(worker.slots.running.values())
        given += [one.grant for one in running]
        for one in running:
            one.stop(RELEASED)
    worker.parking.forget()
    worker.slots.seats.retire(worker.slots)
    await worker.release(given)
    # It may have been told to stop meanwhile: then it leaves once more.
    worker.left = worker.stopping == stopping
