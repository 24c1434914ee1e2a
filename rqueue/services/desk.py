"""What a worker does with one task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.artifacts.results import stow
from rqueue.context import Context, Suspended
from rqueue.errors import ArtifactsUnavailable
from rqueue.model.attempt import Cause, Failed, Reason
from rqueue.model.definition import quick_parts
from rqueue.model.ids import TaskId
from rqueue.policy.previous import asks
from rqueue.policy.validation import demanded
from rqueue.services.aftermath import seen
from rqueue.services.attempt import (
    Encoded,
    Places,
    encoded,
    failure_of,
    perform,
)
from rqueue.services.children.place import check
from rqueue.services.children.pool import Children
from rqueue.services.naming import attempt_name
from rqueue.services.outfit import in_the_end, outfitted, reminded
from rqueue.services.proof.prover import Prover
from rqueue.services.scribe import StoreScribe
from rqueue.services.settling import Settling
from rqueue.services.slots import LOST
from rqueue.services.spawner import Spawner
from rqueue.services.threads import Threads
from rqueue.store import leases
from rqueue.store.leases import Held, Settled

if TYPE_CHECKING:
    from random import Random

    from rqueue.artifacts.shelf import Shelf
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
OVERRUN = Failed(
    Reason.BUDGET_EXCEEDED,
    "it costs more than its max_cost_usd, or than the budget of its DAG, worker or day has left",
    permanent=True,
)
# How long a handler that was told so may go on before its code is stopped.
OVERRUN_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of."""

    shard: Shard
    reader: Reader
    shelf: Shelf
    settings: Settings
    registry: Registry
    hooks: Hooks
    clock: Clock
    random: Random


class Desk(Settling):
    """Runs single tasks for one worker."""

    def __init__(self, parts: Parts, worker: str, held: dict[str, str], offer: Offer) -> None:
        super().__init__(parts, worker, held)
        self.models = offer.models
        self.state: dict[str, Any] = {}
        self.spawner = Spawner(parts)
        # A result that is larger than the queue's is an artifact, where there is room for it.
        self.in_queue_bytes = parts.settings.max_result_bytes
        self.max_result_bytes = max(self.in_queue_bytes, parts.shelf.rules.max_result_bytes)
        children = Children(
            grace_sec=parts.settings.kill_grace_sec,
            max_result_bytes=self.max_result_bytes,
        )
        self.places = Places(Threads(), children)
        self.prover = Prover(parts.shard, parts.settings, parts.hooks)
        self.check(offer)

    def check(self, offer: Offer) -> None:
        """Raises ConfigError for a handler of the offer that could not run, and for a place of
        artifacts that cannot be opened.
        """
        self.parts.shelf.check()
        for type, handler in self.parts.registry.handlers.items():
            if offer.types is not None and type not in offer.types:
                continue
            self.prover.check(handler)
            if handler.kind == "process":
                check(handler)

    async def run(self, running: Running) -> bytes | Failed | None:
        """The encoded result of a task, or how it failed; None where nothing is to be settled:
        that was done before, or the task has left to wait for others.
        """
        grant, parts = running.grant, self.parts
        scribe = StoreScribe(parts.shard, parts.reader, grant, self.ledger, spawner=self.spawner)
        scribe.exceed = partial(exceeded, running)
        ctx = Context(grant.token, scribe, worker=self.worker, state=self.state)
        ctx.loop = asyncio.get_running_loop()
        ctx.aside = self.places.threads.run
        ctx.shelf = parts.shelf
        running.ctx = ctx
        found = quick_parts(grant.definition)
        if found is None:
            bad = await outfitted(ctx, parts.shard, parts.shelf, self.models)
            if bad is not None:
                return bad
            spec = ctx.task.spec
            type, payload, limit = spec.type, spec.payload, spec.time_limit_sec
        else:
            (type, payload), limit, spec = found, None, None
        handler = parts.registry.handlers.get(type)
        if handler is None:
            why = f"this worker has no handler for {type}"
            return Failed(Reason.ERROR, why, cause=Cause.OUTSIDE)
        if grant.attempts and asks(payload, parts.settings.preset.view):
            payload = await reminded(ctx, payload)
        running.deadline = running.began + (limit or parts.settings.timeout_sec)
        if running.task is not None:
            running.task.set_name(attempt_name(type, grant.task))
        if handler.ack == "before":
            await self.run_settled(handler, payload, running, ctx)
            return None
        running.checks = demanded(type, spec, parts.settings)
        outcome = await self.perform(handler, payload, running, ctx)
        if outcome is not None and not running.stopped:
            self.ran(grant, type)
        large = is_large(outcome, self.in_queue_bytes) and not running.stopped
        return await self.stowed(grant, outcome) if large else outcome

    async def stowed(self, grant: Grant, result: Any) -> bytes | Failed:
        """What is stored of a result that is too large for the queue; without the store for it
        the attempt has failed, and is tried again.
        """
        try:
            return await stow(self.parts.shelf, TaskId.from_ulid(grant.task), result)
        except ArtifactsUnavailable as error:
            return failure_of(error)

    async def run_settled(
        self, handler: Handler, payload: object, running: Running, ctx: Context
    ) -> None:
        """Completes a task and then runs it: how that ends, the log says and nobody else."""
        grant = running.grant
        # No lease stops it from now on: the next turn misses what was brought by mail and is
        # completed already, and would have it told as lost.
        running.grant = grant._replace(token="")
        if not await self.settled_first(grant, handler.type):
            running.stopped = LOST
            return
        outcome: bytes | Failed | None
        try:
            outcome = await self.perform(handler, payload, running, ctx)
        except asyncio.CancelledError:
            outcome = self.stopped(running)
        if isinstance(outcome, Failed):
            self.ledger.failed_after(grant, handler.type, outcome)
        if outcome is not None:
            self.aftermath.settled_first(ctx, outcome)

    async def perform(
        self, handler: Handler, payload: object, running: Running, ctx: Context
    ) -> bytes | Failed | None:
        """Runs the handler with the steps around it, and encodes what it returns. What it does
        when its task has left to wait for others is nobody's.
        """
        hooks = self.parts.hooks
        if running.checks and (bad := self.prover.refused(running.checks)) is not None:
            return bad
        value = await perform(handler, payload, ctx, hooks, places=self.places)
        if ctx.suspended:
            if not isinstance(value, Suspended):
                self.ledger.went_on(running.grant, handler.type)
            return None
        outcome: bytes | Failed | None = self.outcome_of(handler, value, running)
        if running.checks and isinstance(outcome, bytes):
            outcome = await self.proven(running, ctx, outcome)
        if hooks.middleware and outcome is not None:
            await hooks.after_attempt(ctx, seen(outcome))
        return outcome

    def outcome_of(self, handler: Handler, value: object, running: Running) -> bytes | Failed:
        """What a handler came to, as it is settled."""
        if running.exceeded:
            return OVERRUN
        match value:
            case Failed():
                return value
            case Encoded(data):
                return data
            case _:
                return encoded(handler, value, self.max_result_bytes)

    async def proven(self, running: Running, ctx: Context, outcome: bytes) -> bytes | Failed | None:
        """An output that passes what it must, or how it fails; None where the task is lost, or has
        left.
        """
        lease = Held(running.grant.task, running.grant.token)
        if not await self.prover.begun(lease):
            self.lost(lease, LOST)
            running.stopped = LOST
            return None
        fault = await self.prover.fault(ctx, running.checks, outcome)
        if ctx.suspended:
            return None
        return outcome if fault is None else fault

    async def settled_first(self, grant: Grant, type: str) -> bool:
        """Completes a task before it runs; whether it was this worker's to complete."""
        row = Settled(grant.task, grant.token, b"")
        words = await in_the_end(lambda: leases.complete(self.parts.shard, [row]))
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
        self.account.completed(done, words)
        self.aftermath.completed(done, words)

    async def aclose(self) -> None:
        """Ends what runs beside the worker; all that was settled has been told then."""
        await self.aftermath.aclose()
        await self.prover.aclose()
        await self.places.aclose()

    def broken(self, running: Running, error: BaseException) -> Failed | None:
        """What an attempt ends as that was stopped, or broke around its handler; None for one
        whose task had left.
        """
        if running.suspended:
            return None
        if isinstance(error, asyncio.CancelledError):
            return self.stopped(running)
        return failure_of(error)

    def stopped(self, running: Running) -> Failed:
        """What an attempt that was stopped from outside ends as."""
        if running.stopped == Reason.TIMEOUT:
            ran = time.monotonic() - running.began
            return Failed(Reason.TIMEOUT, f"stopped after {ran:.1f} s")
        if running.exceeded:
            return OVERRUN
        return Failed(Reason.CANCELLED, running.stopped or "the worker was stopped")


def is_large(outcome: bytes | Failed | None, limit: int) -> bool:
    """Whether it is a result of more bytes than the queue keeps."""
    return isinstance(outcome, bytes) and len(outcome) > limit


def exceeded(running: Running) -> None:
    """A run costs more than it may. Its handler is told by an exception; where it goes on all the
    same, it is stopped.
    """

    def stop() -> None:
        if running.task is not None and not running.task.done():
            running.stop(Reason.BUDGET_EXCEEDED)

    running.exceeded = True
    asyncio.get_running_loop().call_later(OVERRUN_SEC, stop)
