"""The slots of a worker: runs claimed tasks and keeps the rest ready."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from rqueue.core import leases
from rqueue.core.leases import HeldLease

if TYPE_CHECKING:
    from rqueue.core.claim import Grant
    from rqueue.store.shard import Shard
    from rqueue.task.validation import Check
    from rqueue.worker.context import Context
    from rqueue.worker.shared_slots import SharedSlots


# Why an attempt was stopped whose lease this worker no longer holds.
LOST, RELEASED = "lost", "released"
# Tasks that end sooner are completed without reporting their start.
SHORT_SEC = 0.1
# A worker prefetches the tasks it will start within this time, and releases those it did not.
PREFETCH_SEC = 0.05
MAX_PREFETCH = 500


class Running:
    """A running attempt. It is stopped at most once, with a reason."""

    __slots__ = (
        "began", "begun", "checks", "ctx", "deadline", "exceeded", "grant", "stopped",
        "stopped_at", "stuck", "task",
    )  # fmt: skip

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.began = time.monotonic()
        self.begun = False
        self.deadline = float("inf")
        self.task: asyncio.Task[None] | None = None
        self.ctx: Context | None = None
        self.stopped = ""
        self.stopped_at = float("inf")
        self.stuck = False
        # The run exceeds its budget: the attempt fails, however its code ends.
        self.exceeded = False
        # The validators of its result.
        self.checks: tuple[Check, ...] = ()

    @property
    def ends_at(self) -> float:
        """When the timeout is over, including what `ctx.extend` added."""
        return self.deadline + (self.ctx.extended_sec if self.ctx is not None else 0.0)

    @property
    def may_suspend(self) -> bool:
        """Whether its task is suspended or may be suspended by a call that is under way."""
        return self.ctx is not None and self.ctx.suspending > 0

    @property
    def suspended(self) -> bool:
        """Whether its task is suspended; the outcome of its code is ignored then."""
        return self.ctx is not None and self.ctx.suspended

    def stop(self, why: str) -> None:
        """Cancels a coroutine; sets the stop flag that a plain function checks. A suspended
        attempt is not cancelled, so that it can clean up while its task runs elsewhere.
        """
        if self.stopped or (self.may_suspend and why == LOST):
            return
        self.stopped = why
        self.stopped_at = time.monotonic()
        if self.ctx is not None:
            self.ctx.stopped = True
        # A coroutine that is cancelled before its first step would never run its cleanup.
        if self.task is not None and self.begun:
            self.task.cancel()


class Slots:
    """Runs claimed tasks while there are free slots; the rest is ready in order.

    `on_free_slot` is called when another queue on the same slots has freed one.
    """

    def __init__(
        self,
        shared_slots: SharedSlots,
        attempt: Callable[[Running], Coroutine[Any, Any, None]],
        on_free_slot: Callable[[], object],
    ) -> None:
        self.shared_slots = shared_slots
        shared_slots.add(self)
        self.attempt = attempt
        self.on_free_slot = on_free_slot
        self.ready: deque[Grant] = deque()
        self.running: dict[str, Running] = {}
        # Attempts of suspended tasks whose code is still ending while the task runs again here.
        self.suspended_code: set[Running] = set()
        # Attempts that did not stop: their tasks are settled, their slots are not free.
        self.stuck: set[Running] = set()
        self.waiting_since = 0.0

    @property
    def size(self) -> int:
        """How many tasks may run at the same time, including those of other queues on the same
        slots.
        """
        return self.shared_slots.size

    @property
    def busy(self) -> int:
        """How many tasks run or are ready to run."""
        return len(self.running) + len(self.ready)

    @property
    def taken(self) -> int:
        """How many slots are taken or reserved for ready tasks."""
        return self.busy + len(self.stuck)

    def add(self, grants: Sequence[Grant]) -> None:
        """Adds claimed tasks."""
        self.ready.extend(grants)
        self.shared_slots.fill()

    def start(self) -> None:
        """Starts the first ready task; the caller has taken a slot for it."""
        running = Running(self.ready.popleft())
        if running.grant.task in self.running:
            self.suspended_code.add(self.running[running.grant.task])
        self.running[running.grant.task] = running
        running.task = asyncio.get_running_loop().create_task(self.run(running))
        self.waiting_since = running.began

    async def run(self, running: Running) -> None:
        """Runs one attempt, then frees its slot for the next one."""
        running.begun = True
        try:
            # A GeneratorExit of the handler's own code; its cleanup ran and the outcome is kept.
            with suppress(GeneratorExit):
                await self.attempt(running)
        finally:
            # The same task may run under another lease if this attempt ended late.
            if self.running.get(running.grant.task) is running:
                del self.running[running.grant.task]
            self.suspended_code.discard(running)
            self.stuck.discard(running)
            self.shared_slots.finished(self)

    def overdue(self) -> list[Running]:
        """Attempts that exceed their timeout."""
        now = time.monotonic()
        return [
            one for one in chain(self.running.values(), self.suspended_code) if one.ends_at <= now
        ]

    def unresponsive(self, grace_sec: float) -> list[Running]:
        """Attempts that were stopped more than `grace_sec` ago and still run."""
        since = time.monotonic() - grace_sec
        return [one for one in self.running.values() if one.stopped_at <= since]

    def give_up(self, running: Running) -> None:
        """No longer waits for the end of an attempt's code; its slot is freed when that comes."""
        running.stuck = True
        self.running.pop(running.grant.task)
        self.stuck.add(running)

    def remove_overdue(self, max_wait_sec: float) -> list[Grant]:
        """Removes ready tasks that have waited too long for a slot; other workers may have free
        ones.
        """
        if not self.ready or time.monotonic() - self.waiting_since < max_wait_sec:
            return []
        left, self.ready = list(self.ready), deque()
        return left

    def forget(self, lease: HeldLease) -> bool:
        """Removes a ready task whose lease was lost; whether there was one."""
        before = len(self.ready)
        # Compares task and token: the tasks of one claim may share a token.
        self.ready = deque(one for one in self.ready if (one.task, one.token) != lease)
        return len(self.ready) < before

    async def aclose(self) -> None:
        """Cancels all attempts and starts no others. The caller settles or releases the tasks."""
        self.ready.clear()
        under_way = chain(self.running.values(), self.suspended_code)
        tasks = [running.task for running in under_way if running.task is not None]
        stuck = [running.task for running in self.stuck if running.task is not None]
        for task in (*tasks, *stuck):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Prefetch:
    """Prefetched tasks whose start is not reported to Redis yet. Most of them end before it has
    to be reported.
    """

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.tokens: dict[str, str] = {}

    def note(self, grants: Sequence[Grant], begin: int) -> None:
        """Records the grants of a claim, all but the first `begin`, which Redis has started."""
        for grant in grants[max(begin, 0) :]:
            self.tokens[grant.task] = grant.token

    async def report_started(self, running: Mapping[str, Running]) -> None:
        """Reports the start of those that run for longer than `SHORT_SEC`."""
        if not self.tokens:
            return
        since = time.monotonic() - SHORT_SEC
        begun = [
            HeldLease(task, one.grant.token)
            for task, one in running.items()
            if self.tokens.get(task) == one.grant.token and one.begun and one.began <= since
        ]
        if begun:
            await leases.start(self.shard, begun)
        for lease in begun:
            self.tokens.pop(lease.task, None)


class Pace:
    """The rate at which tasks finish, averaged over the last moments."""

    def __init__(self) -> None:
        self.finished = 0
        self.rate = 0.0
        self.lately = 0
        self.since = time.monotonic()

    def count(self, finished: int) -> None:
        """Adds finished tasks."""
        self.finished += finished
        self.lately += finished
        seconds = time.monotonic() - self.since
        if seconds >= PREFETCH_SEC:
            self.rate = (self.rate + self.lately / seconds) / 2
            self.since, self.lately = time.monotonic(), 0

    def forget(self) -> None:
        """Resets the rate after more was prefetched than could be started."""
        self.rate = 0.0

    @property
    def prefetch(self) -> int:
        """How many tasks to prefetch."""
        return min(int(self.rate * PREFETCH_SEC), MAX_PREFETCH)
