"""Settling failed attempts: parked, retried, or dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rqueue.core import leases
from rqueue.core.leases import Parked, Verdict
from rqueue.core.reader import claimed_task
from rqueue.store.replies import lease_fault
from rqueue.task.attempt.blame import suspects
from rqueue.task.attempt.classify import park_sec, slow_sec
from rqueue.task.attempt.outcome import Completed, Failed, Reason
from rqueue.task.attempt.verdict import Report, owes, rule, rules_of
from rqueue.task.codec import decode
from rqueue.task.state import State
from rqueue.worker.attempt import described, model_for
from rqueue.worker.context.inputs import StoredResult
from rqueue.worker.registration import FailureStats
from rqueue.worker.slots import LOST, RELEASED
from rqueue.worker.stats import WorkerStats

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.clock import Clock
    from rqueue.core.claim import Grant
    from rqueue.core.leases import Settled
    from rqueue.core.reader import Reader
    from rqueue.middleware import Hooks
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.worker.context import Context
    from rqueue.worker.executor import Parts
    from rqueue.worker.manual import Lease
    from rqueue.worker.slots import Running


# The failure itself, then a plain error, then a permanent error.
MAX_VERDICTS = 3
LOG = logging.getLogger("rqueue.worker")
# The hooks after a settle are cancelled after this time, since they would accumulate.
HOOKS_SEC = 10.0
# Replies to a park.
SPENT, CLAIMED = "STATE:SPENT", "STATE:CLAIMED"
FAILED = frozenset({State.RETRYING, State.DEAD_LETTERED})


class Limited(NamedTuple):
    """A lease whose service is rate limited, its type, and its failure."""

    task: str
    token: str
    type: str
    outcome: Failed


@dataclass(slots=True)
class Parker:
    """Parks tasks by the rules of a queue, and slows down other tasks of their types."""

    shard: Shard
    reader: Reader
    settings: Settings
    random: Random = field(default_factory=Random)

    def applies_to(self, outcome: Failed) -> bool:
        """Whether a failure parks its task instead of spending an attempt."""
        limited = outcome.reason is Reason.RATE_LIMIT and not outcome.permanent
        return limited and not self.settings.rate_limit_counts

    async def park(self, limited: Sequence[Limited]) -> list[str]:
        """Parks tasks and returns a word for each: OK, LOST, CLAIMED if it has not started, or
        SPENT if it was parked too often and has to fail.
        """
        delays, rest = await self.delays(limited), self.settings.max_slowdown_sec
        rows = [
            Parked(
                one.task,
                one.token,
                round(wait * 1000),
                one.outcome.reason,
                one.type,
                round(slow_sec(wait, rest) * 1000),
            )
            for one, wait in zip(limited, delays, strict=True)
        ]
        return await leases.park(self.shard, rows, most=self.settings.max_rate_limit_parks)

    async def delays(self, limited: Sequence[Limited]) -> list[float]:
        """The delay of each: the one that its service requested, else longer with each park."""
        without_delay = [one.task for one in limited if one.outcome.retry_after is None]
        tasks = await self.reader.read(without_delay) if without_delay else []
        parks = {task.id.ulid: task.parks for task in tasks if task is not None}
        return [
            park_sec(one.outcome.retry_after, parks.get(one.task, 0), self.random)
            for one in limited
        ]


class FailureSettler:
    """The part of the executor that settles failed attempts. `held` is the worker's table of
    leases.
    """

    models: Collection[str]

    def __init__(self, parts: Parts, worker: str, held: dict[str, str]) -> None:
        self.parts = parts
        self.worker = worker
        self.held = held
        self.failed: list[tuple[Grant, Failed]] = []
        self.stats = WorkerStats(worker, parts.settings.name)
        rule = parts.settings.bad_workers
        self.failure_stats = FailureStats(worker, rule, self.stats.completed_by_type)
        self.settle_hooks = SettleHooks(parts.hooks)
        self.current = parts.settings.live()
        self.parker = Parker(parts.shard, parts.reader, parts.settings, parts.random)
        # The tokens of tasks that were parked too often and have to fail.
        self.spent: set[str] = set()

    def ran(self, grant: Grant, type: str) -> None:
        """Remembers an attempt's type and the workers that failed its task before, for
        its settle.
        """
        self.stats.types[grant.task] = type
        if grant.failed_by:
            self.failure_stats.retried[grant.task] = grant.failed_by

    def fail(self, grant: Grant, outcome: Failed, *, exclusive: bool) -> None:
        """Keeps a failure for the next settle, with whether nothing else ran beside it."""
        self.failed.append((grant, replace(outcome, exclusive=exclusive or outcome.exclusive)))

    async def settle(self) -> None:
        """Settles the failed attempts in one call, as the policy decides. Attempts of rate-limited
        services are parked first.
        """
        await self.park_limited()
        rows = [self.with_verdict(grant, outcome) for grant, outcome in self.failed]
        failed = [(grant, outcome) for grant, outcome, _ in rows]
        if not failed:
            return
        words = await leases.fail(self.parts.shard, [row for *_, row in rows])
        self.ended(failed)
        pills = {row.task for *_, row in rows if row.poison}
        self.stats.failed(failed, words, pills)
        self.settle_hooks.failed(failed, words)

    async def park_limited(self) -> None:
        """Parks the attempts of rate-limited services; those parked too often are left to fail."""
        limited = [
            (grant, outcome)
            for grant, outcome in self.failed
            if self.parker.applies_to(outcome) and grant.token not in self.spent
        ]
        if not limited:
            return
        words = await self.parker.park(
            [
                Limited(grant.task, grant.token, claimed_task(grant).type, outcome)
                for grant, outcome in limited
            ]
        )
        found = list(zip(limited, words, strict=True))
        self.spent.update(grant.token for (grant, _), word in found if word == SPENT)
        parked = [row for row, word in found if word != SPENT]
        self.ended(parked)
        self.stats.parked(parked, [word for word in words if word != SPENT])
        self.settle_hooks.failed(parked, [State.RETRYING] * len(parked))

    def ended(self, failed: Sequence[tuple[Grant, Failed]]) -> None:
        """Forgets settled attempts; others may have failed meanwhile."""
        gone = {grant.token + grant.task for grant, _ in failed}
        self.failed[:] = [row for row in self.failed if row[0].token + row[0].task not in gone]
        for grant, _ in failed:
            self.spent.discard(grant.token)
            self.failure_stats.retried.pop(grant.task, None)
            if self.held.get(grant.task) == grant.token:
                del self.held[grant.task]

    def with_verdict(
        self, grant: Grant, outcome: Failed, number: int = 1
    ) -> tuple[Grant, Failed, Verdict]:
        """A failed attempt with its verdict. If the policy raises, the attempt is a plain error,
        and a permanent one if that raises too.
        """
        try:
            return grant, outcome, self.verdict(grant, outcome)
        except Exception as error:
            # The error concerns this task only: it must not block the other tasks, nor end the
            # worker.
            if number == MAX_VERDICTS:
                raise
            message = f"the retry policy failed: {described(error)}"
            plain = Failed(Reason.ERROR, message, permanent=number == MAX_VERDICTS - 1)
            return self.with_verdict(grant, plain, number + 1)

    def verdict(self, grant: Grant, outcome: Failed) -> Verdict:
        """The policy's decision on a failed attempt."""
        task = claimed_task(grant)
        model = model_for(task.spec, task.attempts, self.models)
        used = None if isinstance(model, Failed) else model
        in_a_row = self.failure_stats.in_a_row(task.type, grant.task)
        report = Report(self.worker, outcome.message, self.parts.clock.now(), used, in_a_row)
        self.failure_stats.failed(task.type, grant.task, suspects(outcome, in_a_row))
        rules = rules_of(task.spec, self.current)
        ruling = rule(task, outcome, report, rules, random=self.parts.random)
        return Verdict(grant.task, grant.token, *ruling, owes=owes(outcome))


class Settler:
    """What a manual lease needs to end its attempt: the shard, the retry rules, and `parker` with
    the random number generator. Results that are too large are stored in `shelf`.
    """

    def __init__(
        self, shard: Shard, reader: Reader, settings: Settings, clock: Clock, *, shelf: Shelf
    ) -> None:
        self.shard = shard
        self.shelf = shelf
        self.parker = Parker(shard, reader, settings)
        self.current = settings.live()
        self.clock = clock
        self.max_result_bytes = settings.max_result_bytes

    async def fail(self, lease: Lease, outcome: Failed) -> State:
        """Ends a leased attempt as failed, or parks its task if its service is rate limited; raises
        LeaseLost.
        """
        if self.parker.applies_to(outcome) and await self.parked(lease, outcome):
            return State.RETRYING
        task = lease.task
        report = Report(lease.worker, outcome.message, self.clock.now())
        rules = rules_of(task.spec, self.current)
        ruling = rule(task, outcome, report, rules, random=self.parker.random)
        # Other processes may still report costs of a run that was leased manually.
        row = Verdict(lease.grant.task, lease.token, *ruling, owes="1")
        (word,) = await leases.fail(self.shard, [row])
        fault = lease_fault("task/fail", lease.id, lease.token, word)
        if fault is not None:
            raise fault
        return State(word)

    async def parked(self, lease: Lease, outcome: Failed) -> bool:
        """Whether the task was parked. False if it was parked too often, or if the lease is lost,
        as in a repeated call after a successful park.
        """
        row = Limited(lease.grant.task, lease.token, lease.task.type, outcome)
        (word,) = await self.parker.park([row])
        if word == CLAIMED:
            # Only a RUNNING task can be parked, and the call to the service has happened.
            await lease.start()
            (word,) = await self.parker.park([row])
        return word == "OK"


AttemptEnd = tuple["Context", bytes | Failed]
Settlement = tuple["Context", bytes | Failed, State | None]


class SettleHooks:
    """Runs the `after_settle` hooks of one worker when Redis has confirmed a settle. Attempts are
    kept only if there is middleware. The worker does not wait for the hooks.
    """

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        # The grants of one claim may share a token, so the task is part of the key.
        self.ended: dict[tuple[str, str], AttemptEnd] = {}
        self.pending: set[asyncio.Task[None]] = set()

    def keep(self, running: Running, outcome: bytes | Failed | None) -> None:
        """Keeps an ended attempt until it is settled. Runs the hooks immediately if its lease was
        lost, since nothing will be written.
        """
        if not self.hooks.middleware or outcome is None or running.ctx is None:
            return
        if running.stopped == RELEASED:
            return
        if running.stopped == LOST:
            self.start([(running.ctx, outcome, None)])
        else:
            self.ended[running.grant.task, running.grant.token] = running.ctx, outcome

    def settled_first(self, ctx: Context, outcome: bytes | Failed) -> None:
        """Runs the hooks for a task that was completed before it ran."""
        self.start([(ctx, outcome, State.COMPLETED)])

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """Runs the hooks for completed attempts, given the reply for each."""
        if self.ended:
            states = [State.COMPLETED if word == "OK" else None for word in words]
            self.settled([(row.task, row.token) for row in done], states)

    def failed(self, failed: Sequence[tuple[Grant, Failed]], words: Sequence[str]) -> None:
        """Runs the hooks for failed attempts, given the reply for each."""
        if self.ended:
            states = [State(word) if word in FAILED else None for word in words]
            self.settled([(grant.task, grant.token) for grant, _ in failed], states)

    def settled(self, leases: Sequence[tuple[str, str]], states: Sequence[State | None]) -> None:
        """Runs the hooks for those of the leases that are kept here."""
        found = zip(leases, states, strict=True)
        self.start(
            [(*self.ended.pop(lease), state) for lease, state in found if lease in self.ended]
        )

    def start(self, settlements: Sequence[Settlement]) -> None:
        """Starts the hooks of some attempts concurrently."""
        if settlements and self.hooks.middleware:
            task = asyncio.get_running_loop().create_task(self.run_all(settlements))
            self.pending.add(task)
            task.add_done_callback(self.pending.discard)

    async def run_all(self, settlements: Sequence[Settlement]) -> None:
        """Runs the hooks for each; cancels them after `HOOKS_SEC`."""
        try:
            async with asyncio.timeout(HOOKS_SEC):
                steps = (
                    self.hooks.after_settle(ctx, as_outcome(end), at)
                    for ctx, end, at in settlements
                )
                await asyncio.gather(*steps, return_exceptions=True)
        except TimeoutError:
            LOG.error("after_settle took longer than %g s and was cancelled", HOOKS_SEC)

    async def aclose(self) -> None:
        """Waits for the pending hooks."""
        await asyncio.gather(*self.pending, return_exceptions=True)


def as_outcome(end: bytes | Failed) -> Completed | Failed:
    """The outcome as the hooks get it; a result that was stored as an artifact is decoded."""
    if isinstance(end, Failed):
        return end
    data = end.whole if isinstance(end, StoredResult) else end
    return Completed(decode(data, field="result") if data else None)
