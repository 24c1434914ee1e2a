"""Runs the services of a shard while it leads, and waits for its turn while another does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.client.drafts import Drafter
from rqueue.errors import RQueueError
from rqueue.policy.leading import (
    ask_sec,
    pause_sec,
    term_sec,
    trusted_until,
)
from rqueue.services.janitor import Janitor
from rqueue.services.keeper import Keeper
from rqueue.services.lookout import Lookout
from rqueue.services.notifier import notifiers
from rqueue.services.promoter import Promoter
from rqueue.services.reaper import Reaped, Reaper
from rqueue.services.referee import Referee
from rqueue.services.rescorer import Rescorer
from rqueue.services.service import Figures, Paced, Service, keep
from rqueue.services.stopping import ended, paused, unless
from rqueue.services.sweeper import Sweeper
from rqueue.store.leading import Term, lead, yield_lead
from rqueue.store.outbox import join

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

log = logging.getLogger("rqueue.scheduler")

PROMOTE_SEC = 1.0
# A term that could not be given up in this time runs out by itself.
YIELD_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Owner:
    """A candidate: a name that no other has, and how long its term lasts unless it renews."""

    name: str
    ttl_sec: float


def owner_of(name: str, settings: Settings) -> Owner:
    """A candidate whose term fits the queue's leases."""
    return Owner(name, term_sec(settings.lease_sec))


def standard(
    shard: Shard, reader: Reader, settings: Settings, *, clock: Clock, random: Random
) -> list[Service]:
    """The services that every shard needs."""
    promoter = Promoter(shard)
    reaper = Reaper(shard, reader, settings, clock=clock, random=random)

    async def reap() -> Reaped:
        reaped = await reaper.tick()
        if reaped.retrying:
            # Mostly due at once: they need not wait for the promoter's own time.
            await promoter.tick()
        return reaped

    return [
        Paced("promoter", PROMOTE_SEC, promoter.tick),
        Paced("reaper", reaper.interval_sec, reap),
        Keeper(shard, Drafter(settings, clock)),
        Rescorer(shard, reader),
        Sweeper(shard),
        Janitor(shard, keep_ms=round(settings.notice_keep_sec * 1000)),
        Lookout(shard, settings),
        *([Referee(shard, settings)] if settings.bad_workers.enabled else []),
        *notifiers(shard, settings, clock=clock, random=random),
    ]


class Scheduler:
    """One candidate for the leadership of a shard. Any number may run; the one that leads ticks
    its services, each in a task of its own.
    """

    def __init__(
        self,
        shard: Shard,
        services: Sequence[Service],
        *,
        owner: Owner,
        clock: Clock,
        random: Random,
    ) -> None:
        self.shard = shard
        self.services = services
        self.owner = owner
        self.clock = clock
        self.random = random
        self.figures = {service.name: Figures() for service in services}
        self.term: Term | None = None
        self.heard_at = 0.0
        self.failing = 0
        self.joined = False

    async def run(self, stop: asyncio.Event) -> None:
        """Leads whenever it can, until told to stop; then gives its term up at once.

        No fault of the server ends it.
        """
        try:
            while not stop.is_set():
                trusted = await self.ask(stop)
                if trusted is not None:
                    await self.serve(stop, trusted)
                if not stop.is_set():
                    await paused(stop, self.patience())
        finally:
            await self.resign()

    async def ask(self, stop: asyncio.Event, within_sec: float | None = None) -> float | None:
        """Asks to lead; until when it may believe that it does, None where it does not."""
        asked_at, ttl_sec = self.clock.monotonic(), self.owner.ttl_sec
        try:
            term = await unless(stop, self.request(), within_sec)
        except RQueueError as error:
            self.failing += 1
            level = logging.WARNING if self.failing == 1 else logging.DEBUG
            log.log(level, "cannot ask who leads: %s", error, extra=self.fields())
            return None
        if term is None:
            return None
        self.failing = 0
        known = self.term.owner if self.term else ""
        self.term, self.heard_at = term, self.clock.monotonic()
        if term.owner not in (self.owner.name, known):
            log.info("stands by", extra={**self.fields(), "leader": term.owner})
        return trusted_until(asked_at, ttl_sec) if term.owner == self.owner.name else None

    async def request(self) -> Term:
        """Asks the server who leads; first of all it says that the queue has an archive, if this
        process knows of one: those who end tasks need not.
        """
        if self.shard.terms.archive and not self.joined:
            await join(self.shard)
            self.joined = True
        return await lead(self.shard, self.owner.name, ttl_ms=round(self.owner.ttl_sec * 1000))

    async def serve(self, stop: asyncio.Event, trusted: float) -> None:
        """Runs the services and renews the term, until it is another's or can not be trusted."""
        log.info("leads", extra=self.fields())
        keeping = [
            asyncio.create_task(
                keep(
                    service,
                    self.figures[service.name],
                    server_ms=self.server_ms,
                    random=self.random,
                ),
                name=service.name,
            )
            for service in self.services
        ]
        try:
            while (left := trusted - self.clock.monotonic()) > 0:
                await paused(stop, min(left, self.patience()))
                if stop.is_set():
                    break
                renewed = await self.ask(stop, trusted - self.clock.monotonic())
                if renewed is None and not self.failing:
                    break
                trusted = trusted if renewed is None else renewed
        finally:
            await ended(keeping)
            log.info("leads no more", extra=self.fields())

    def patience(self) -> float:
        """How long to wait before asking again: longer and longer where nobody answers."""
        if self.failing:
            return pause_sec(self.failing, self.random)
        return ask_sec(self.owner.ttl_sec, self.random)

    async def resign(self) -> None:
        """Lets another lead at once, where this one does or may: an answer may have been lost."""
        try:
            async with asyncio.timeout(YIELD_SEC):
                await yield_lead(self.shard, self.owner.name)
        except (RQueueError, TimeoutError) as error:
            log.info("the term runs out by itself: %s", error, extra=self.fields())

    def server_ms(self) -> float:
        """The server's time, as it told it and this machine's clock has counted since."""
        told = self.term.server_ms if self.term else 0
        return told + (self.clock.monotonic() - self.heard_at) * 1000

    def fields(self) -> dict[str, object]:
        """What a line in the log says beside its event."""
        return {"owner": self.owner.name, "epoch": self.term.epoch if self.term else 0}
