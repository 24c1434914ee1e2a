"""A worker's place in the list of workers: it says what it offers, and hears when it is to end."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqueue.errors import RQueueError
from rqueue.model.worker import Registration
from rqueue.services.stopping import paused
from rqueue.store import fleet
from rqueue.store.outbox import join

if TYPE_CHECKING:
    from rqueue.services.worker import Worker

LOG = logging.getLogger("rqueue.worker")
# A server that is away is not waited for: who has left is offline after a lease anyway.
LEAVE_SEC = 0.5
# Of a lease: a thousand idle workers shall cost the server little, and none be taken for gone.
SHARE = 2 / 3
AGAIN_SEC = 1.0
# How soon news of failures are told; of a lease, where that is short.
NEWS_SEC, NEWS_SHARE = 5.0, 1 / 6


class Registering:
    """Registers a worker at its start, and again before a lease is over: a server that has lost its
    data knows it soon, and a worker that missed the mail is told to drain. The first time it says
    that the queue has an archive, too, if it knows of one.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.sent_home = False
        self.is_known = False

    @property
    def run(self) -> str:
        """The name of this run: another one each time a worker is started."""
        return self.worker.talk.waiter.name

    def said(self) -> Registration:
        """What is told of the worker as it is now."""
        worker, settings = self.worker, self.worker.parts.settings
        offer = worker.talk.waiter.offer
        return Registration(
            types=None if offer.types is None else tuple(sorted(offer.types)),
            capabilities=tuple(sorted(offer.capabilities)),
            agents=tuple(sorted(offer.agents)),
            models_available=tuple(sorted(offer.models)),
            max_concurrent_tasks=worker.slots.size,
            poll_interval_sec=settings.park_sec,
            claim_ttl_sec=settings.claim_ttl_sec,
            draining=worker.draining,
            **self.accounted(),
        )

    def accounted(self) -> dict[str, Any]:
        """What is told of its work, where anybody compares that."""
        account = self.worker.desk.account
        account.news = False
        if not account.rule.enabled:
            return {}
        return {"worked": account.worked(), "blames": account.blames()}

    async def keep(self) -> None:
        """Registers again and again, and at once when the worker begins to drain."""
        lease_sec = self.worker.parts.settings.lease_sec
        while True:
            told = self.worker.draining
            known = await self.register()
            pause_sec = lease_sec * SHARE if known else min(AGAIN_SEC, lease_sec / 3)
            if told:
                await asyncio.sleep(pause_sec)
            else:
                await self.rest(pause_sec)

    async def rest(self, pause_sec: float) -> None:
        """Waits until it is time to register again, or until there is news."""
        step_sec = min(NEWS_SEC, self.worker.parts.settings.lease_sec * NEWS_SHARE)
        until = time.monotonic() + pause_sec
        while (left_sec := until - time.monotonic()) > 0 and not self.worker.ending.is_set():
            await paused(self.worker.ending, min(step_sec, left_sec))
            if self.worker.desk.account.news:
                return

    async def register(self) -> bool:
        """Registers once; whether that was heard."""
        worker = self.worker
        try:
            if not self.is_known and worker.shard.terms.archive:
                await join(worker.shard)
            is_to_drain = await fleet.register(worker.shard, worker.name, self.run, self.said())
        except RQueueError:
            # The turns say so too, where it is worth a line.
            return False
        self.is_known = True
        if is_to_drain:
            self.hear(self.run)
        return True

    def hear(self, run: str) -> None:
        """An operator has told a run to drain: it takes no more, and ends when it is done."""
        if run == self.run and not self.worker.draining:
            self.sent_home = True
            running = len(self.worker.slots.running)
            LOG.info("told to drain", extra={"worker": self.worker.name, "running": running})
            self.worker.drain()

    async def leave(self) -> None:
        """Says that the worker has ended, if the server is there to hear it."""
        if self.is_known:
            with suppress(RQueueError, TimeoutError):
                async with asyncio.timeout(LEAVE_SEC):
                    await fleet.leave(self.worker.shard, self.worker.name, self.run)
