"""The leader election of the schedulers: one leads for a term, by the server's clock, and runs the
services.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.clock import ended, paused, unless
from rqueue.core.outbox import join
from rqueue.core.timers import read_last_check
from rqueue.errors import RQueueError
from rqueue.process.service import Service, ServiceCounters, pause_sec, run_service
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.settings.load import Settings
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


LOG = logging.getLogger("rqueue.scheduler")
LONGEST_TERM_SEC = 5.0
# A new leader takes over before the reaper's gap, a third of a lease, so that a lost scheduler does
# not delay it.
TERMS_A_LEASE = 6
# A leader trusts its term for this share of it.
SHARE_TRUSTED = 0.9
# A term that cannot be given up in this time expires.
YIELD_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Term:
    """A term: its leader, its epoch, the time left, and the server's time of the reply."""

    owner: str
    epoch: int
    left_ms: int
    server_ms: int


async def lead(shard: Shard, owner: str, *, ttl_ms: int) -> Term:
    """Takes or renews the leadership if it is free or held by `owner`; returns the current term."""
    args: dict[str, Argument] = {"owner": owner, "ttl_ms": ttl_ms}
    found, epoch, left, now = ok("scheduler/lead", owner, await shard.run("scheduler/lead", args))
    return Term(text(found), int(epoch), int(left), int(now))


async def yield_term(shard: Shard, owner: str) -> bool:
    """Gives up the leadership; False if another owner has it."""
    reply = await shard.run("scheduler/yield", {"owner": owner})
    if text(reply[0]) == "LOST":
        return False
    ok("scheduler/yield", owner, reply)
    return True


async def leader(shard: Shard) -> Term | None:
    """The current term, without a candidacy; None if there is no leader."""
    key = shard.keys.leader()
    found: Any = await shard.runner.connection.call(lambda c: c.hgetall(key), what="leader")
    now_ms, _ = await read_last_check(shard)
    left_ms = int(found.get(b"until_ms", 0)) - now_ms
    if left_ms <= 0:
        return None
    return Term(text(found[b"owner"]), int(found[b"epoch"]), left_ms, now_ms)


@dataclass(frozen=True, slots=True)
class Owner:
    """A candidate: a unique name, and how long its term lasts without a renewal."""

    name: str
    ttl_sec: float


def owner_of(name: str, settings: Settings) -> Owner:
    """A candidate whose term fits the queue's leases."""
    return Owner(name, term_sec(settings.lease_sec))


def term_sec(lease_sec: float) -> float:
    """How long a term lasts without a renewal."""
    return min(LONGEST_TERM_SEC, lease_sec / TERMS_A_LEASE)


def request_sec(ttl_sec: float, random: Random) -> float:
    """How long to wait before the next request for the leadership; randomized, so that candidates
    do not send them at the same time.
    """
    return ttl_sec / 3 * random.uniform(0.8, 1.2)


def trusted_until(requested_at: float, ttl_sec: float) -> float:
    """Until when a leader may trust its term: counted from before its request, by its own clock,
    and a little shorter, so that it stops before another leader starts.
    """
    return requested_at + ttl_sec * SHARE_TRUSTED


class Scheduler:
    """One candidate for the leadership of a shard. Any number may run; the leader ticks its
    services, each in a task of its own.
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
        self.figures = {service.name: ServiceCounters() for service in services}
        self.term: Term | None = None
        self.answered_at = 0.0
        self.failing = 0
        self.joined = False

    async def run(self, stop: asyncio.Event) -> None:
        """Leads whenever it can until `stop` is set, then gives up its term.

        Continues after any error of Redis.
        """
        try:
            while not stop.is_set():
                trusted = await self.request_term(stop)
                if trusted is not None:
                    await self.serve(stop, trusted)
                if not stop.is_set():
                    await paused(stop, self.request_pause_sec())
        finally:
            await self.resign()

    async def request_term(
        self, stop: asyncio.Event, within_sec: float | None = None
    ) -> float | None:
        """Requests the leadership; returns until when it may be trusted, None if not granted."""
        requested_at, ttl_sec = self.clock.monotonic(), self.owner.ttl_sec
        try:
            term = await unless(stop, self.send_request(), within_sec)
        except RQueueError as error:
            self.failing += 1
            level = logging.WARNING if self.failing == 1 else logging.DEBUG
            LOG.log(level, "leader election failed: %s", error, extra=self.fields())
            return None
        if term is None:
            return None
        self.failing = 0
        known = self.term.owner if self.term else ""
        self.term, self.answered_at = term, self.clock.monotonic()
        if term.owner not in (self.owner.name, known):
            LOG.info("standing by", extra={**self.fields(), "leader": term.owner})
        return trusted_until(requested_at, ttl_sec) if term.owner == self.owner.name else None

    async def send_request(self) -> Term:
        """Sends one request. The first one announces the archive, if there is one, so that workers
        need not.
        """
        if self.shard.terms.archive and not self.joined:
            await join(self.shard)
            self.joined = True
        return await lead(self.shard, self.owner.name, ttl_ms=round(self.owner.ttl_sec * 1000))

    async def serve(self, stop: asyncio.Event, trusted: float) -> None:
        """Runs the services and renews the term until it is lost or can no longer be trusted."""
        LOG.info("leading", extra=self.fields())
        keeping = [
            asyncio.create_task(
                run_service(
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
                await paused(stop, min(left, self.request_pause_sec()))
                if stop.is_set():
                    break
                renewed = await self.request_term(stop, trusted - self.clock.monotonic())
                if renewed is None and not self.failing:
                    break
                trusted = trusted if renewed is None else renewed
        finally:
            await ended(keeping)
            LOG.info("no longer leading", extra=self.fields())

    def request_pause_sec(self) -> float:
        """How long to wait before the next request; longer after each failure."""
        if self.failing:
            return pause_sec(self.failing, self.random)
        return request_sec(self.owner.ttl_sec, self.random)

    async def resign(self) -> None:
        """Gives up the term, which this scheduler may hold even if it got no reply."""
        try:
            async with asyncio.timeout(YIELD_SEC):
                await yield_term(self.shard, self.owner.name)
        except (RQueueError, TimeoutError) as error:
            LOG.info("resigning failed, the term expires: %s", error, extra=self.fields())

    def server_ms(self) -> float:
        """The server's time: that of the last reply plus the time since."""
        last_ms = self.term.server_ms if self.term else 0
        return last_ms + (self.clock.monotonic() - self.answered_at) * 1000

    def fields(self) -> dict[str, object]:
        """The fields of every log line."""
        return {"owner": self.owner.name, "epoch": self.term.epoch if self.term else 0}
