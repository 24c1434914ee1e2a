"""Delivers notices to one sink. Each sink has its own notifier, so a sink that is down does not
delay others.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never
from uuid import uuid4

from rqueue.errors import ConfigError
from rqueue.notices.mail import SmtpSender
from rqueue.notices.sender import CONCURRENCY, LogSender, Undelivered
from rqueue.notices.sink import LogSink, SlackSink, SmtpSink, WebhookSink
from rqueue.notices.store import NoticeOutcome, TakeRequest, serve, settle, take
from rqueue.notices.webhook import WebhookSender
from rqueue.notices.wording import message_of

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.notices.sender import Sender
    from rqueue.notices.sink import Destinations, Sink
    from rqueue.notices.store import Notice
    from rqueue.notices.webhook import Resolve
    from rqueue.notices.wording import Message
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard

log = logging.getLogger("rqueue.notices")

PREFIX = "notifier-"
INTERVAL_SEC = 1.0
# How often the notifier registers that it serves the sink.
SERVE_SEC = 30.0
# For how long a registration stays valid where another notifier of the sink wants other events:
# longer than a restart takes.
LATELY_MS = 300_000
# Notices per batch, and notices taken by all notifiers of the sink together.
LIMIT, WINDOW = 16, 100
# Batches per tick; the next tick continues.
ROUNDS = 20
# Finished notices that are remembered, in case the server was not notified.
REMEMBERED = 1000
FIRST_DELAY_MS, LONGEST_DELAY_MS = 1_000, 300_000
# Refusals after which a notice is given up: with the delays in between, four minutes at least.
MOST_REFUSALS = 10


@dataclass(slots=True)
class DeliveryCounts:
    """The work of one tick: notices delivered, attempts that failed, and notices given up."""

    delivered: int = 0
    failed: int = 0
    given_up: int = 0


class Notifier:
    """Delivers to one sink the notices that it wants, and retries each until it has arrived or was
    refused too often. Any number of notifiers may run, because each leases the notices that it
    takes.
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
        self.settled: deque[str] = deque(maxlen=REMEMBERED)
        # In this process and not in the server: refusals count, not attempts.
        self.refusals: dict[str, int] = {}
        # Long enough for a batch of deliveries that all take as long as they may.
        wait_sec = getattr(sink, "timeout_sec", 1.0)
        self.lease_ms = round(1000 * (wait_sec * LIMIT / CONCURRENCY + 2 * INTERVAL_SEC))

    async def tick(self) -> DeliveryCounts:
        """Delivers the notices that are due."""
        done = DeliveryCounts()
        await self.serve()
        for _ in range(ROUNDS):
            taker = uuid4().hex
            request = TakeRequest(taker, self.lease_ms, LIMIT, WINDOW)
            taken = await take(self.shard, self.sink.name, request)
            if taken is None:
                # The server has lost its data: the sink is registered again.
                self.served_at = None
                await self.serve()
                continue
            await self.deliver_all(taken.notices, taker, done)
            if not taken.notices and not taken.more:
                break
        return done

    async def serve(self) -> None:
        """Registers at intervals that the sink is served, and the events that it wants."""
        now = self.clock.monotonic()
        if self.served_at is None or now - self.served_at >= SERVE_SEC:
            await serve(self.shard, self.sink.name, self.sink.wants(), lately_ms=LATELY_MS)
            self.served_at = now

    async def deliver_all(self, notices: list[Notice], taker: str, done: DeliveryCounts) -> None:
        """Delivers a batch, some notices concurrently. An error of one does not prevent the
        delivery of the others; it is raised at the end.
        """
        gate = asyncio.Semaphore(CONCURRENCY)

        async def one(notice: Notice) -> None:
            async with gate:
                await self.deliver(notice, taker, done)

        ended = await asyncio.gather(*map(one, notices), return_exceptions=True)
        for fault in ended:
            if fault is not None:
                raise fault

    async def deliver(self, notice: Notice, taker: str, done: DeliveryCounts) -> None:
        """Sends one notice and records the result. A notice that this notifier has finished is not
        sent again, even if the server has not recorded that.
        """
        later: int | str = ""
        if notice.id not in self.settled:
            try:
                await self.sender.send(self.message(notice))
                done.delivered += 1
            except Undelivered as fault:
                done.failed += 1
                self.report(notice, fault)
                if not self.gives_up(notice, fault):
                    later = delay_ms(notice.tries, self.random)
                else:
                    done.given_up += 1
            if later == "":
                self.settled.append(notice.id)
                self.refusals.pop(notice.id, None)
        await settle(self.shard, self.sink.name, taker, [NoticeOutcome(notice.id, later)])

    def gives_up(self, notice: Notice, fault: Undelivered) -> bool:
        """Returns whether a notice is not retried. Refused notices must not fill up the window."""
        if not fault.refused:
            return False
        refusals = self.refusals.pop(notice.id, 0) + 1
        self.refusals[notice.id] = refusals
        if len(self.refusals) > REMEMBERED:
            # Drops the oldest.
            del self.refusals[next(iter(self.refusals))]
        if not is_given_up(refusals):
            return False
        fields = {"sink": self.sink.name, "notice": notice.event.name, "event": notice.event.id}
        log.error("notice given up after %d refusals: %s", refusals, fault, extra=fields)
        return True

    def message(self, notice: Notice) -> Message:
        """Returns the message that this sink receives for a notice."""
        return message_of(
            self.queue, self.sink.name, notice.id, notice.event, whole=self.sink.detail
        )

    def report(self, notice: Notice, fault: Undelivered) -> None:
        """Logs a failed delivery: as a warning for the first attempt of a notice, as debug for
        others.
        """
        level = logging.WARNING if notice.tries == 1 else logging.DEBUG
        fields = {"sink": self.sink.name, "notice": notice.event.name, "tries": notice.tries}
        log.log(level, "notice not delivered: %s", fault, extra=fields)


def delay_ms(tries: int, random: Random) -> int:
    """Returns the delay after this number of failed attempts: doubled each time, up to a
    maximum.
    """
    longest = min(LONGEST_DELAY_MS, FIRST_DELAY_MS << min(tries - 1, 20))
    return round(longest * random.uniform(0.5, 1.0))


def is_given_up(refusals: int) -> bool:
    """Returns whether a notice with this number of refusals is not retried."""
    return refusals >= MOST_REFUSALS


def notifiers(
    shard: Shard, settings: Settings, *, clock: Clock, random: Random, strict: bool = False
) -> list[Notifier]:
    """Returns one notifier for each sink of a queue. A sink whose secret or package is missing in
    this process is left to other processes; with `strict`, ConfigError is raised.
    """
    found = []
    for sink in settings.sinks:
        try:
            sender = sender_of(sink, settings.notice_destinations, clock=clock)
        except ConfigError as error:
            if strict:
                raise
            log.warning("sink not served by this process: %s", error, extra={"sink": sink.name})
            continue
        made = Notifier(shard, sink, sender, queue=settings.name, clock=clock, random=random)
        found.append(made)
    return found


def sender_of(
    sink: Sink, allowed: Destinations, *, clock: Clock, resolve: Resolve | None = None
) -> Sender:
    """Returns the sender for a sink. Raises ConfigError if a secret or a package that it needs is
    missing.
    """
    match sink:
        case WebhookSink():
            secret = secret_of(sink.name, "secret_env", sink.secret_env)
            return WebhookSender(sink, url_of(sink), allowed, clock, resolve=resolve, secret=secret)
        case SlackSink():
            return WebhookSender(sink, url_of(sink), allowed, clock, resolve=resolve)
        case SmtpSink():
            login = sink.password_env and secret_of(sink.name, "password_env", sink.password_env)
            return SmtpSender(sink, password=login or "")
        case LogSink():
            return LogSender()
        case _:
            assert_never(sink)


def url_of(sink: WebhookSink | SlackSink) -> str:
    """Returns the URL of a sink. One from the environment is checked like one from the settings."""
    if sink.url_env is None:
        return str(sink.url)
    url = secret_of(sink.name, "url_env", sink.url_env)
    try:
        return str(type(sink).model_validate({**dict(sink), "url": url, "url_env": None}).url)
    except ValueError:
        rule = f"the variable {sink.url_env} contains no URL that begins with https://"
        raise ConfigError(f"sinks.{sink.name}.url_env", rule) from None


def secret_of(sink: str, field: str, variable: str) -> str:
    """Returns the value of an environment variable. Raises ConfigError if it is not set."""
    found = os.environ.get(variable, "")
    if not found:
        raise ConfigError(f"sinks.{sink}.{field}", f"the variable {variable} is not set")
    return found
