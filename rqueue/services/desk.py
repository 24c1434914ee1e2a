"""What a worker does with one task, and how failed attempts are settled."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.context import Context
from rqueue.errors import InvalidTask, StoreUnavailable
from rqueue.model.attempt import Completed, Failed, Reason
from rqueue.model.definition import quick_parts
from rqueue.policy.verdict import Report, refused, rule, rules_of
from rqueue.services.attempt import perform
from rqueue.services.scribe import StoreScribe
from rqueue.store import leases
from rqueue.store.leases import Settled, Verdict
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from random import Random

    from rqueue.clock import Clock
    from rqueue.hooks import Hooks
    from rqueue.registry import Handler, Registry
    from rqueue.services.slots import Running
    from rqueue.settings import Settings
    from rqueue.store.claims import Grant
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard


LOG = logging.getLogger("rqueue.worker")
# Why an attempt was stopped whose task is no longer in this worker's hands.
LOST, RELEASED = "lost", "released"
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


@dataclass
class Figures:
    """What a worker counts."""

    lost: int = 0
    failed: int = 0


class Desk:
    """Runs single tasks for one worker."""

    def __init__(self, parts: Parts, worker: str, held: dict[str, str]) -> None:
        self.parts = parts
        self.worker = worker
        self.held = held
        self.state: dict[str, Any] = {}
        self.failed: list[tuple[Grant, Failed]] = []
        self.figures = Figures()
        self.threads: Executor | None = None

    async def run(self, running: Running) -> bytes | Failed | None:
        """The encoded result of a task, or how it failed; None where it was settled before."""
        grant, parts = running.grant, self.parts
        scribe = StoreScribe(parts.shard, parts.reader, grant)
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
        if handler.ack == "before" and not await self.settled_first(grant):
            running.stopped = LOST
            return None
        outcome = await self.perform(handler, payload, ctx)
        return outcome if handler.ack == "after" else None

    async def perform(self, handler: Handler, payload: object, ctx: Context) -> bytes | Failed:
        """Runs the handler with the steps around it, and encodes what it returns."""
        hooks = self.parts.hooks
        assert self.threads is not None
        value = await perform(handler, payload, ctx, hooks, threads=self.threads)
        outcome: bytes | Failed
        if isinstance(value, Failed):
            outcome = value
        else:
            try:
                outcome = handler.encoded(value, self.parts.settings.max_result_bytes)
            except InvalidTask as error:
                outcome = Failed(Reason.INVALID_OUTPUT, str(error))
        for step in hooks.middleware:
            seen = outcome if isinstance(outcome, Failed) else Completed(value)  # type: ignore[arg-type]
            try:
                await step.after_attempt(ctx, seen)
            except Exception:
                # The user's code, after the fact: the outcome stands whatever it does.
                LOG.exception("after_attempt of %s failed", type(step).__name__)
        return outcome

    async def settled_first(self, grant: Grant) -> bool:
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
            return words == ["OK"]

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
        for (grant, _), word in zip(failed, words, strict=True):
            if self.held.get(grant.task) == grant.token:
                del self.held[grant.task]
            self.figures.lost += word == "LOST"
        self.figures.failed += len(failed)

    def verdict(self, grant: Grant, outcome: Failed) -> Verdict:
        """What becomes of a failed attempt."""
        task = claimed(grant)
        report = Report(self.worker, outcome.message, self.parts.clock.now())
        rules = rules_of(task.spec, self.parts.settings)
        ruling = rule(task, outcome, report, rules, random=self.parts.random)
        return Verdict(grant.task, grant.token, *ruling)
