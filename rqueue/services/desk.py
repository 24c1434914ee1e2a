"""What a worker does with one task, and how failed attempts are settled."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.context import Context
from rqueue.errors import StoreUnavailable
from rqueue.model.attempt import Completed, Failed, Reason
from rqueue.model.definition import quick_parts
from rqueue.policy.verdict import Report, refused, rule, rules_of
from rqueue.services.aftermath import Aftermath
from rqueue.services.attempt import Encoded, Places, encoded, perform
from rqueue.services.children.place import check
from rqueue.services.children.pool import Children
from rqueue.services.ledger import Ledger
from rqueue.services.scribe import StoreScribe
from rqueue.services.slots import LOST
from rqueue.services.threads import Threads
from rqueue.store import leases
from rqueue.store.leases import Held, Settled, Verdict
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.hooks import Hooks
    from rqueue.policy.capability import Offer
    from rqueue.registry import Handler, Registry
    from rqueue.services.slots import Running
    from rqueue.settings import Settings
    from rqueue.store.claims import Grant
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard


LOG = logging.getLogger("rqueue.worker")
ASK_AGAIN_SEC = 0.5


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of."""

    shard: Shard
    reader: Reader
    settings: Settings
    registry: Registry
    hooks: Hooks
    clock: Clock
    random: Random


class Desk:
    """Runs single tasks for one worker."""

    def __init__(self, parts: Parts, worker: str, held: dict[str, str]) -> None:
        self.parts = parts
        self.worker = worker
        self.held = held
        self.state: dict[str, Any] = {}
        self.failed: list[tuple[Grant, Failed]] = []
        self.ledger = Ledger(worker, parts.settings.name)
        self.aftermath = Aftermath(parts.hooks)
        children = Children(
            grace_sec=parts.settings.kill_grace_sec,
            max_result_bytes=parts.settings.max_result_bytes,
        )
        self.places = Places(Threads(), children)

    def check(self, offer: Offer) -> None:
        """Raises ConfigError for a handler of the offer that could not run."""
        for type, handler in self.parts.registry.handlers.items():
            if handler.kind == "process" and (offer.types is None or type in offer.types):
                check(handler)

    async def run(self, running: Running) -> bytes | Failed | None:
        """The encoded result of a task, or how it failed; None where it was settled before."""
        grant, parts = running.grant, self.parts
        scribe = StoreScribe(parts.shard, parts.reader, grant, self.ledger)
        ctx = Context(grant.token, scribe, worker=self.worker, state=self.state)
        running.ctx = ctx
        found = quick_parts(grant.definition)
        if found is None:
            bad = refused(ctx.task)
            if bad is not None:
                return bad
            spec = ctx.task.spec
            type, payload, limit = spec.type, spec.payload, spec.time_limit_sec
        else:
            (type, payload), limit = found, None
        handler = parts.registry.handlers.get(type)
        if handler is None:
            return Failed(Reason.ERROR, f"this worker has no handler for {type}")
        running.deadline = running.began + (limit or parts.settings.timeout_sec)
        if handler.ack == "before" and not await self.settled_first(grant, type):
            running.stopped = LOST
            return None
        outcome = await self.perform(handler, payload, ctx)
        if handler.ack == "after" and not running.stopped:
            self.ledger.types[grant.task] = type
        if handler.ack == "before":
            self.aftermath.settled_first(ctx, outcome)
            return None
        return outcome

    async def perform(self, handler: Handler, payload: object, ctx: Context) -> bytes | Failed:
        """Runs the handler with the steps around it, and encodes what it returns."""
        hooks = self.parts.hooks
        value = await perform(handler, payload, ctx, hooks, places=self.places)
        outcome: bytes | Failed
        match value:
            case Failed():
                outcome = value
            case Encoded(data):
                outcome = data
            case _:
                outcome = encoded(handler, value, self.parts.settings.max_result_bytes)
        if hooks.middleware:
            value = value.value if isinstance(value, Encoded) else value
            seen = outcome if isinstance(outcome, Failed) else Completed(value)  # type: ignore[arg-type]
            await hooks.after_attempt(ctx, seen)
        return outcome

    async def settled_first(self, grant: Grant, type: str) -> bool:
        """Completes a task before it runs; whether it was this worker's to complete."""
        row = Settled(grant.task, grant.token, b"")
        while True:
            try:
                words = await leases.complete(self.parts.shard, [row])
            except StoreUnavailable:
                await asyncio.sleep(ASK_AGAIN_SEC)
                continue
            # It is nobody's lease from now on: the heartbeat must not miss it.
            self.held.pop(grant.task, None)
            self.ledger.types[grant.task] = type
            self.ledger.completed([row], words)
            return words == ["OK"]

    def lost(self, lease: Held, why: str) -> None:
        """Says that a lease is no longer held, unless it has ended meanwhile."""
        if self.held.get(lease.task) == lease.token:
            self.ledger.lost(lease.task, why)

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """What was to be completed, and what the server said to each."""
        for row in done:
            if self.held.get(row.task) == row.token:
                del self.held[row.task]
        self.ledger.completed(done, words)
        self.aftermath.completed(done, words)

    async def aclose(self) -> None:
        """Ends what runs beside the worker; all that was settled has been told then."""
        await self.aftermath.aclose()
        await self.places.aclose()

    def stopped(self, running: Running) -> Failed:
        """What an attempt that was stopped from outside ends as."""
        if running.stopped == Reason.TIMEOUT:
            ran = time.monotonic() - running.began
            return Failed(Reason.TIMEOUT, f"stopped after {ran:.1f} s")
        return Failed(Reason.CANCELLED, running.stopped or "the worker was stopped")

    async def settle(self) -> None:
        """Ends failed attempts as the policy decides, all in one call."""
        failed = self.failed[:]
        rows = [self.verdict(grant, outcome) for grant, outcome in failed]
        words = await leases.fail(self.parts.shard, rows)
        del self.failed[: len(failed)]
        for grant, _ in failed:
            if self.held.get(grant.task) == grant.token:
                del self.held[grant.task]
        self.ledger.failed(failed, words)
        self.aftermath.failed(failed, words)

    def verdict(self, grant: Grant, outcome: Failed) -> Verdict:
        """What becomes of a failed attempt."""
        task = claimed(grant)
        report = Report(self.worker, outcome.message, self.parts.clock.now())
        rules = rules_of(task.spec, self.parts.settings)
        ruling = rule(task, outcome, report, rules, random=self.parts.random)
        return Verdict(grant.task, grant.token, *ruling)
