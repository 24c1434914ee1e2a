"""The registration of a worker: its offer, its failure statistics, and drain requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rqueue.clock import paused
from rqueue.core import workers as registered
from rqueue.core.outbox import join
from rqueue.core.workers import Registration
from rqueue.errors import RQueueError
from rqueue.task.attempt.blame import Culprit, failed_elsewhere

if TYPE_CHECKING:
    from rqueue.core.leases import Settled
    from rqueue.task.attempt.blame import WorkerRule
    from rqueue.worker.worker import Worker


LOG = logging.getLogger("rqueue.worker")
# Redis may be unavailable at the end; the registration expires after a lease anyway.
LEAVE_SEC = 0.5
# Shares of a lease: rare enough for a thousand idle workers, often enough to stay registered.
SHARE = 2 / 3
AGAIN_SEC = 1.0
# How often changed failure statistics are sent; a share of the lease if that is shorter.
CHANGES_SEC, CHANGES_SHARE = 5.0, 1 / 6
# Limits of what is kept and sent; above them the numbers are large enough to decide.
MOST_TASKS, MOST_TYPES, MOST_NAMES = 1000, 100, 100
# More failures in a row make no difference.
MOST_IN_A_ROW = 16


class Registrar:
    """Registers a worker at its start and again before the registration expires. So it is
    restored after Redis lost its data, and a worker that missed a drain request gets it. The first
    registration also announces the archive, if there is one.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.drained = False
        self.is_known = False

    @property
    def run(self) -> str:
        """The id of this run; it changes each time the worker is started."""
        return self.worker.session.waiter.name

    def registration(self) -> Registration:
        """The current registration."""
        worker, settings = self.worker, self.worker.parts.settings
        offer = worker.session.waiter.offer
        return Registration(
            types=None if offer.types is None else tuple(sorted(offer.types)),
            capabilities=tuple(sorted(offer.capabilities)),
            agents=tuple(sorted(offer.agents)),
            models_available=tuple(sorted(offer.models)),
            max_concurrent_tasks=worker.slots.size,
            poll_interval_sec=settings.claim_wait_sec,
            claim_ttl_sec=settings.claim_ttl_sec,
            draining=worker.draining,
            **self.failure_fields(),
        )

    def failure_fields(self) -> dict[str, Any]:
        """The failure statistics, if the queue compares workers."""
        failure_stats = self.worker.executor.failure_stats
        failure_stats.changed = False
        if not failure_stats.rule.enabled:
            return {}
        return {"worked": failure_stats.worked(), "blames": failure_stats.blames()}

    async def keep(self) -> None:
        """Registers repeatedly, and immediately when the worker begins to drain."""
        lease_sec = self.worker.parts.settings.lease_sec
        while True:
            draining = self.worker.draining
            known = await self.register()
            pause_sec = lease_sec * SHARE if known else min(AGAIN_SEC, lease_sec / 3)
            if draining:
                await asyncio.sleep(pause_sec)
            else:
                await self.rest(pause_sec)

    async def rest(self, pause_sec: float) -> None:
        """Waits for the next registration, which is due early if the failure statistics changed."""
        step_sec = min(CHANGES_SEC, self.worker.parts.settings.lease_sec * CHANGES_SHARE)
        until = time.monotonic() + pause_sec
        while (left_sec := until - time.monotonic()) > 0 and not self.worker.ending.is_set():
            await paused(self.worker.ending, min(step_sec, left_sec))
            if self.worker.executor.failure_stats.changed:
                return

    async def register(self) -> bool:
        """Registers once; False if Redis did not answer."""
        worker = self.worker
        try:
            if not self.is_known and worker.shard.terms.archive:
                await join(worker.shard)
            is_to_drain = await registered.register(
                worker.shard, worker.name, self.run, self.registration()
            )
        except RQueueError:
            # The exchanges log the same error.
            return False
        self.is_known = True
        if is_to_drain:
            self.on_drain(self.run)
        return True

    def on_drain(self, run: str) -> None:
        """Drains this run at an operator's request."""
        if run == self.run and not self.worker.draining:
            self.drained = True
            running = len(self.worker.slots.running)
            LOG.info("drain requested", extra={"worker": self.worker.name, "running": running})
            self.worker.drain()

    async def leave(self) -> None:
        """Removes the registration if Redis is available."""
        if self.is_known:
            with suppress(RQueueError, TimeoutError):
                async with asyncio.timeout(LEAVE_SEC):
                    await registered.leave(self.worker.shard, self.worker.name, self.run)


@dataclass(slots=True)
class HalfWindow:
    """Half of the window: the completions by type before it began, the tasks that failed in it, and
    the tasks completed in it that other workers had failed.
    """

    began: float
    done_before: Mapping[str, int]
    failed: dict[str, set[str]] = field(default_factory=dict)
    blames: Counter[str] = field(default_factory=Counter)


class FailureStats:
    """Failure statistics of one worker over a sliding window of two halves. `completed` is the
    counter of its WorkerStats, so that a completion costs nothing here.
    """

    def __init__(self, worker: str, rule: WorkerRule, completed: Mapping[str, int]) -> None:
        self.worker = worker
        self.rule = rule
        self.done = completed
        self.older = self.newer = HalfWindow(time.monotonic(), dict(completed))
        self.rows: dict[str, dict[str, float]] = {}
        self.done_at: dict[str, int] = {}
        self.retried: dict[str, tuple[str, ...]] = {}
        # Whether there are changes that should be sent soon.
        self.changed = False

    def in_a_row(self, type: str, task: str) -> int:
        """How many other tasks of a type have failed here since the last completion, within the
        window.
        """
        return len(self.row_of(type).keys() - {task})

    def row_of(self, type: str) -> dict[str, float]:
        """Those tasks, and when they failed."""
        done, since = self.done.get(type, 0), time.monotonic() - self.rule.window_sec
        before = self.rows.get(type, {}) if self.done_at.get(type) == done else {}
        self.done_at[type] = done
        row = self.rows[type] = {task: at for task, at in before.items() if at > since}
        return row

    def failed(self, type: str, task: str, suspects: Collection[Culprit]) -> None:
        """Counts a failed attempt if the worker or the task may be the cause."""
        if not {Culprit.TASK, Culprit.WORKER}.intersection(suspects):
            return
        row = self.row_of(type)
        if len(row) < MOST_IN_A_ROW:
            row[task] = time.monotonic()
        self.shift()
        tasks = self.newer.failed.setdefault(type, set())
        if len(tasks) < MOST_TASKS:
            tasks.add(task)
        self.changed = self.changed or len(tasks) >= self.rule.tasks

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """Counts completed tasks that other workers had failed against those workers."""
        if not self.retried:
            return
        self.shift()
        for row, word in zip(done, words, strict=True):
            names = failed_elsewhere(self.retried.pop(row.task, ()), self.worker)
            if word == "OK" and names:
                self.newer.blames.update(names)
                self.changed = True

    def shift(self) -> None:
        """Drops the half that is older than the window."""
        now = time.monotonic()
        if now - self.newer.began >= self.rule.window_sec / 2:
            late = now - self.newer.began >= self.rule.window_sec
            fresh = HalfWindow(now, dict(self.done))
            self.older, self.newer = fresh if late else self.newer, fresh

    def worked(self) -> dict[str, tuple[int, int]]:
        """How many tasks of each type were completed, and how many failed; the most
        failures first.
        """
        self.shift()
        before = self.older.done_before
        found = {type: (n - before.get(type, 0), 0) for type, n in list(self.done.items())}
        for type in self.older.failed.keys() | self.newer.failed.keys():
            tasks = self.older.failed.get(type, set()) | self.newer.failed.get(type, set())
            found[type] = (found.get(type, (0, 0))[0], len(tasks))
        known = [(type, counts) for type, counts in found.items() if any(counts)]
        return dict(sorted(known, key=lambda one: (-one[1][1], -one[1][0]))[:MOST_TYPES])

    def blames(self) -> dict[str, int]:
        """The workers that failed tasks which this one then completed, and how often."""
        self.shift()
        halves = {id(half): half for half in (self.older, self.newer)}.values()
        return dict(sum((half.blames for half in halves), Counter()).most_common(MOST_NAMES))
