"""Delivers notices to one sink, in its own time: one that is down delays no other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from rqueue.errors import ConfigError
from rqueue.policy.telling import delay_ms, is_given_up, letter_of
from rqueue.services.sinks import sender_of
from rqueue.services.sinks.sending import AT_ONCE, Undelivered
from rqueue.store.sinks import Asking, Delivery, serve, settle, take

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.model.sink import Sink
    from rqueue.policy.telling import Letter
    from rqueue.services.sinks.sending import Sender
    from rqueue.settings import Settings
    from rqueue.store.shard import Shard
    from rqueue.store.sinks import Notice

log = logging.getLogger("rqueue.notices")

PREFIX = "notifier-"
INTERVAL_SEC = 1.0
# How often it says that the sink is served.
SERVE_SEC = 30.0
# How long what it then says holds where another notifier of the sink says otherwise: longer than
# one is away that restarts.
LATELY_MS = 300_000
# Deliveries in one hand, and taken by all notifiers of the sink together.
LIMIT, WINDOW = 16, 100
# A tick ends after so many hands full: the next one goes on.
ROUNDS = 20
# What is remembered to be over, should the server not have heard of it.
REMEMBERED = 1000


@dataclass(slots=True)
class Noticed:
    """What one tick did: notices that arrived, tries that failed, and notices given up by that."""

    delivered: int = 0
    failed: int = 0
    given_up: int = 0


class Notifier:
    """Tells one sink what it wants to be told, each notice until it has arrived or was refused too
    often. Any number may run: what one has taken the others leave to it for a while.
    """

    interval_sec = INTERVAL_SEC

    def __init__(
        self,
        shard: Shard,
        sink: Sink,
        sender: Sender,
        *,
        queue: str,
        clock: Clock,
        random: Random,
    ) -> None:
        self.shard = shard
        self.sink = sink
        self.sender = sender
        self.queue = queue
        self.clock = clock
        self.random = random
        self.name = f"{PREFIX}{sink.name}"
        self.served_at: float | None = None
        self.over: deque[str] = deque(maxlen=REMEMBERED)
        # Here and not in the server: what counts is what was said, not how often it was tried.
        self.refusals: dict[str, int] = {}
        # Long enough for a hand full of deliveries that all take as long as they may.
        wait_sec = getattr(sink, "timeout_sec", 1.0)
        self.lease_ms = round(1000 * (wait_sec * LIMIT / AT_ONCE + 2 * INTERVAL_SEC))

    async def tick(self) -> Noticed:
        """Delivers what is there and due."""
        done = Noticed()
        await self.serve()
        for _ in range(ROUNDS):
            taker = uuid4().hex
            asking = Asking(taker, self.lease_ms, LIMIT, WINDOW)
            taken = await take(self.shard, self.sink.name, asking)
            if taken is None:
                # The server has lost its memory: the sink begins anew.
                self.served_at = None
                await self.serve()
                continue
            await self.deliver_all(taken.notices, taker, done)
            if not taken.notices and not taken.more:
                break
        return done

    async def serve(self) -> None:
        """Says from time to time that the sink is served, and what it wants."""
        now = self.clock.monotonic()
        if self.served_at is None or now - self.served_at >= SERVE_SEC:
            await serve(self.shard, self.sink.name, self.sink.wants(), lately_ms=LATELY_MS)
            self.served_at = now

    async def deliver_all(self, notices: list[Notice], taker: str, done: Noticed) -> None:
        """Delivers a hand full, some at once; one that is stuck keeps no other from being tried."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(notice: Notice) -> None:
            async with gate:
                await self.deliver(notice, taker, done)

        ended = await asyncio.gather(*map(one, notices), return_exceptions=True)
        for fault in ended:
            if fault is not None:
                raise fault

    async def deliver(self, notice: Notice, taker: str, done: Noticed) -> None:
        """Sends one notice and says what became of it. What is known to be over is not sent again,
        though the server may not have heard of it.
        """
        later: int | str = ""
        if notice.id not in self.over:
            try:
                await self.sender.send(self.letter(notice))
                done.delivered += 1
            except Undelivered as fault:
                done.failed += 1
                self.report(notice, fault)
                if not self.gives_up(notice, fault):
                    later = delay_ms(notice.tries, self.random)
                else:
                    done.given_up += 1
            if later == "":
                self.over.append(notice.id)
                self.refusals.pop(notice.id, None)
        await settle(self.shard, self.sink.name, taker, [Delivery(notice.id, later)])

    def gives_up(self, notice: Notice, fault: Undelivered) -> bool:
        """Whether a notice is tried no more: so many that are refused would leave no place for
        others.
        """
        if not fault.refused:
            return False
        refusals = self.refusals.pop(notice.id, 0) + 1
        self.refusals[notice.id] = refusals
        if len(self.refusals) > REMEMBERED:
            # The oldest: others have had it since.
            del self.refusals[next(iter(self.refusals))]
        if not is_given_up(refusals):
            return False
        fields = {"sink": self.sink.name, "notice": notice.event.name, "event": notice.event.id}
        log.error("given up after %d refusals: %s", refusals, fault, extra=fields)
        return True

    def letter(self, notice: Notice) -> Letter:
        """A notice as this sink is told it."""
        return letter_of(
            self.queue, self.sink.name, notice.id, notice.event, whole=self.sink.detail
        )

    def report(self, notice: Notice, fault: Undelivered) -> None:
        """Logs a delivery that failed: the first try of a notice loudly, the others not."""
        level = logging.WARNING if notice.tries == 1 else logging.DEBUG
        fields = {"sink": self.sink.name, "notice": notice.event.name, "tries": notice.tries}
        log.log(level, "not delivered: %s", fault, extra=fields)


def notifiers(
    shard: Shard, settings: Settings, *, clock: Clock, random: Random, strict: bool = False
) -> list[Notifier]:
    """One notifier for each sink of a queue. One whose secret or package is not here is left to
    others that have it, unless `strict`.
    """
    found = []
    for sink in settings.sinks:
        try:
            sender = sender_of(sink, settings.notice_destinations, clock=clock)
        except ConfigError as error:
            if strict:
                raise
            log.warning("a sink is left to others: %s", error, extra={"sink": sink.name})
            continue
        made = Notifier(shard, sink, sender, queue=settings.name, clock=clock, random=random)
        found.append(made)
    return found
