"""The executor: runs single attempts for a worker and determines their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rqueue.core import leases
from rqueue.core.leases import HeldLease, Settled
from rqueue.errors import ArtifactsUnavailable
from rqueue.task.attempt.outcome import Cause, Failed, Reason, wants_history
from rqueue.task.definition import quick_parts
from rqueue.task.ids import TaskId
from rqueue.worker.attempt import (
    Encoded,
    Runners,
    encoded,
    failure_of,
    perform,
    prepare_task,
    until_answered,
    with_failure_history,
)
from rqueue.worker.children.pool import SubprocessPool
from rqueue.worker.context import Context, Suspended
from rqueue.worker.context.inputs import store_result
from rqueue.worker.context.spawn import Spawner
from rqueue.worker.context.store_backend import StoreBackend
from rqueue.worker.settle import FailureSettler, as_outcome
from rqueue.worker.slots import LOST
from rqueue.worker.stats import attempt_name
from rqueue.worker.threads import Threads
from rqueue.worker.validators.run import ValidatorRunner, validators_of

if TYPE_CHECKING:
    from random import Random

    from rqueue.artifacts.shelf import Shelf
    from rqueue.clock import Clock
    from rqueue.core.claim import Grant
    from rqueue.core.reader import Reader
    from rqueue.middleware import Hooks
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Offer
    from rqueue.worker.handler import Handler, Registry
    from rqueue.worker.slots import Running


OVERRUN = Failed(
    Reason.BUDGET_EXCEEDED,
    "it exceeds its max_cost_usd, or the remaining budget of its DAG, worker or day",
    permanent=True,
)
# How long a handler may continue after BudgetExceeded was raised before it is stopped.
OVERRUN_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The dependencies of a worker."""

    shard: Shard
    reader: Reader
    shelf: Shelf
    settings: Settings
    registry: Registry
    hooks: Hooks
    clock: Clock
    random: Random


class Executor(FailureSettler):
    """Runs single attempts for one worker."""

    def __init__(self, parts: Parts, worker: str, held: dict[str, str], offer: Offer) -> None:
        super().__init__(parts, worker, held)
        self.models = offer.models
        self.state: dict[str, Any] = {}
        self.spawner = Spawner(parts)
        # A result above the queue's limit is stored as an artifact, up to the artifact limit.
        self.in_queue_bytes = parts.settings.max_result_bytes
        self.max_result_bytes = max(self.in_queue_bytes, parts.shelf.rules.max_result_bytes)
        subprocesses = SubprocessPool(
            grace_sec=parts.settings.kill_grace_sec,
            max_result_bytes=self.max_result_bytes,
        )
        self.runners = Runners(Threads(), subprocesses)
        self.validator_runner = ValidatorRunner(parts.shard, parts.settings, parts.hooks)
        self.check(offer)

    def check(self, offer: Offer) -> None:
        """Raises ConfigError for a handler of the offer that cannot run here, and for an artifact
        store that cannot be opened.
        """
        self.parts.shelf.check()
        for type, handler in self.parts.registry.handlers.items():
            if offer.types is not None and type not in offer.types:
                continue
            self.validator_runner.check(handler)
            if handler.kind == "process":
                handler.check_importable()

    async def run(self, running: Running) -> bytes | Failed | None:
        """The encoded result of an attempt, or its failure. None if there is nothing to settle: the
        task was completed before it ran, or is suspended.
        """
        grant, parts = running.grant, self.parts
        backend = StoreBackend(parts.shard, parts.reader, grant, self.stats, spawner=self.spawner)
        backend.exceed = partial(exceeded, running)
        ctx = Context(grant.token, backend, worker=self.worker, state=self.state)
        ctx.loop = asyncio.get_running_loop()
        ctx.run_in_thread = self.runners.threads.run
        ctx.shelf = parts.shelf
        running.ctx = ctx
        found = quick_parts(grant.definition)
        if found is None:
            bad = await prepare_task(ctx, parts.shard, parts.shelf, self.models)
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
        if grant.attempts and wants_history(payload, parts.settings.preset.view):
            payload = await with_failure_history(ctx, payload)
        running.deadline = running.began + (limit or parts.settings.timeout_sec)
        if running.task is not None:
            running.task.set_name(attempt_name(type, grant.task))
        if handler.ack == "before":
            await self.run_settled(handler, payload, running, ctx)
            return None
        running.checks = validators_of(type, spec, parts.settings)
        outcome = await self.perform(handler, payload, running, ctx)
        if outcome is not None and not running.stopped:
            self.ran(grant, type)
        large = is_large(outcome, self.in_queue_bytes) and not running.stopped
        return await self.stored(grant, outcome) if large else outcome

    async def stored(self, grant: Grant, result: Any) -> bytes | Failed:
        """Stores a result that is too large for the queue as an artifact. The attempt fails, and is
        retried, if the artifact store is unavailable.
        """
        try:
            return await store_result(self.parts.shelf, TaskId.from_ulid(grant.task), result)
        except ArtifactsUnavailable as error:
            return failure_of(error)

    async def run_settled(
        self, handler: Handler, payload: object, running: Running, ctx: Context
    ) -> None:
        """Completes a task and then runs it (`ack="before"`); its outcome is only logged."""
        grant = running.grant
        # The lease is over: the next exchange would otherwise report a delivered task that is
        # completed already as lost.
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
            self.stats.failed_after(grant, handler.type, outcome)
        if outcome is not None:
            self.settle_hooks.settled_first(ctx, outcome)

    async def perform(
        self, handler: Handler, payload: object, running: Running, ctx: Context
    ) -> bytes | Failed | None:
        """Runs the handler with its middleware, encodes and validates the result. The return value
        of a suspended task's handler is ignored.
        """
        hooks = self.parts.hooks
        if running.checks and (bad := self.validator_runner.refused(running.checks)) is not None:
            return bad
        value = await perform(handler, payload, ctx, hooks, runners=self.runners)
        if ctx.suspended:
            if not isinstance(value, Suspended):
                self.stats.continued_after_suspension(running.grant, handler.type)
            return None
        outcome: bytes | Failed | None = self.outcome_of(handler, value, running)
        if running.checks and isinstance(outcome, bytes):
            outcome = await self.validated(running, ctx, outcome)
        if hooks.middleware and outcome is not None:
            await hooks.after_attempt(ctx, as_outcome(outcome))
        return outcome

    def outcome_of(self, handler: Handler, value: object, running: Running) -> bytes | Failed:
        """The outcome of a handler's return value."""
        if running.exceeded:
            return OVERRUN
        match value:
            case Failed():
                return value
            case Encoded(data):
                return data
            case _:
                return encoded(handler, value, self.max_result_bytes)

    async def validated(
        self, running: Running, ctx: Context, outcome: bytes
    ) -> bytes | Failed | None:
        """The result if it passes validation, else the failure. None if the task was lost or
        suspended.
        """
        lease = HeldLease(running.grant.task, running.grant.token)
        if not await self.validator_runner.start(lease):
            self.lost(lease, LOST)
            running.stopped = LOST
            return None
        fault = await self.validator_runner.fault(ctx, running.checks, outcome)
        if ctx.suspended:
            return None
        return outcome if fault is None else fault

    async def settled_first(self, grant: Grant, type: str) -> bool:
        """Completes a task before it runs; False if the lease was lost."""
        row = Settled(grant.task, grant.token, b"")
        words = await until_answered(lambda: leases.complete(self.parts.shard, [row]))
        # There is no lease any more, so the heartbeat must not renew it.
        self.held.pop(grant.task, None)
        self.stats.types[grant.task] = type
        self.stats.completed([row], words)
        return words == ["OK"]

    def lost(self, lease: HeldLease, why: str) -> None:
        """Logs and counts a lost lease, unless the task has ended meanwhile."""
        if self.held.get(lease.task) == lease.token:
            self.stats.lost(lease.task, why)

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """Records the replies of a completion."""
        for row in done:
            if self.held.get(row.task) == row.token:
                del self.held[row.task]
        self.stats.completed(done, words)
        self.failure_stats.completed(done, words)
        self.settle_hooks.completed(done, words)

    async def aclose(self) -> None:
        """Closes threads, subprocesses and validators after the pending hooks have run."""
        await self.settle_hooks.aclose()
        await self.validator_runner.aclose()
        await self.runners.aclose()

    def broken(self, running: Running, error: BaseException) -> Failed | None:
        """The outcome of an attempt that was stopped or that raised outside of its handler; None if
        its task is suspended.
        """
        if running.suspended:
            return None
        if isinstance(error, asyncio.CancelledError):
            return self.stopped(running)
        return failure_of(error)

    def stopped(self, running: Running) -> Failed:
        """The outcome of an attempt that was stopped from outside."""
        if running.stopped == Reason.TIMEOUT:
            ran = time.monotonic() - running.began
            return Failed(Reason.TIMEOUT, f"stopped after {ran:.1f} s")
        if running.exceeded:
            return OVERRUN
        return Failed(Reason.CANCELLED, running.stopped or "the worker was stopped")


def is_large(outcome: bytes | Failed | None, limit: int) -> bool:
    """Whether this is a result above the queue's limit."""
    return isinstance(outcome, bytes) and len(outcome) > limit


def exceeded(running: Running) -> None:
    """Marks a run that exceeds its budget. Its handler gets an exception, and is stopped if it
    continues.
    """

    def stop() -> None:
        if running.task is not None and not running.task.done():
            running.stop(Reason.BUDGET_EXCEEDED)

    running.exceeded = True
    asyncio.get_running_loop().call_later(OVERRUN_SEC, stop)
