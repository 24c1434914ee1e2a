"""The slots of a worker: how many tasks run at once, and what waits for a free one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.context import Context
    from rqueue.model.proof import Check
    from rqueue.services.seats import Seats
    from rqueue.store.claims import Grant
    from rqueue.store.leases import Held

# Why an attempt was stopped whose task is no longer in this worker's hands.
LOST, RELEASED = "lost", "released"


class Running:
    """An attempt under way. Its code can be told to stop, once, with the reason."""

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
        # Whether it costs more than it may: however its code ends, the attempt has failed.
        self.exceeded = False
        # What its output must pass.
        self.checks: tuple[Check, ...] = ()

    @property
    def ends_at(self) -> float:
        """When its time is up, with what its handler has asked for."""
        return self.deadline + (self.ctx.extended_sec if self.ctx is not None else 0.0)

    @property
    def leaving(self) -> bool:
        """Whether its task has left to wait for others, or may at this moment."""
        return self.ctx is not None and self.ctx.leaving > 0

    @property
    def suspended(self) -> bool:
        """Whether its task has left: how its code ends means nothing any more."""
        return self.ctx is not None and self.ctx.suspended

    def stop(self, why: str) -> None:
        """Ends the code of the attempt: coroutines are cancelled, plain functions are asked to.
        One whose task leaves by itself closes what it has opened, also when the task is back.
        """
        if self.stopped or (self.leaving and why == LOST):
            return
        self.stopped = why
        self.stopped_at = time.monotonic()
        if self.ctx is not None:
            self.ctx.stopped = True
        # One that was cancelled before its first step would never come to its end.
        if self.task is not None and self.begun:
            self.task.cancel()


class Slots:
    """Runs what was claimed as there are seats; the rest waits in order.

    `roomy` is called when another member has left room.
    """

    def __init__(
        self,
        seats: Seats,
        attempt: Callable[[Running], Coroutine[Any, Any, None]],
        roomy: Callable[[], object],
    ) -> None:
        self.seats = seats
        seats.join(self)
        self.attempt = attempt
        self.roomy = roomy
        self.ready: deque[Grant] = deque()
        self.running: dict[str, Running] = {}
        # The code of one whose task is back, and runs again, before it has ended.
        self.leaving: set[Running] = set()
        # Code that did not stop when it was told to: its task is settled, its seat is not free.
        self.stuck: set[Running] = set()
        self.waiting_since = 0.0

    @property
    def size(self) -> int:
        """How many may run at once, with what runs for others on the same seats."""
        return self.seats.size

    @property
    def busy(self) -> int:
        """Tasks that run or are ready to."""
        return len(self.running) + len(self.ready)

    @property
    def taken(self) -> int:
        """Seats that are taken or spoken for."""
        return self.busy + len(self.stuck)

    def give(self, grants: Sequence[Grant]) -> None:
        """Takes what was claimed."""
        self.ready.extend(grants)
        self.seats.fill()

    def start(self) -> None:
        """Starts what has waited longest; a seat was taken for it."""
        running = Running(self.ready.popleft())
        if running.grant.task in self.running:
            self.leaving.add(self.running[running.grant.task])
        self.running[running.grant.task] = running
        running.task = asyncio.get_running_loop().create_task(self.run(running))
        self.waiting_since = running.began

    async def run(self, running: Running) -> None:
        """One attempt, and then the next one that waits."""
        running.begun = True
        try:
            # A sub-task's comes in from here: what is within is closed, and has kept how it ended.
            with suppress(GeneratorExit):
                await self.attempt(running)
        finally:
            # The same task may run again under another lease, if this one ended late.
            if self.running.get(running.grant.task) is running:
                del self.running[running.grant.task]
            self.leaving.discard(running)
            self.stuck.discard(running)
            self.seats.leave(self)

    def overdue(self) -> list[Running]:
        """Attempts whose time is up."""
        now = time.monotonic()
        return [one for one in chain(self.running.values(), self.leaving) if one.ends_at <= now]

    def deaf(self, grace_sec: float) -> list[Running]:
        """Attempts that were told to stop so long ago, and have not."""
        since = time.monotonic() - grace_sec
        return [one for one in self.running.values() if one.stopped_at <= since]

    def give_up(self, running: Running) -> None:
        """Waits no more for the end of an attempt's code; its seat is free when that comes."""
        running.stuck = True
        self.running.pop(running.grant.task)
        self.stuck.add(running)

    def take_back(self, patience_sec: float) -> list[Grant]:
        """What has waited for a slot for longer than it should: others may be free for it."""
        if not self.ready or time.monotonic() - self.waiting_since < patience_sec:
            return []
        left, self.ready = list(self.ready), deque()
        return left

    def forget(self, lease: Held) -> bool:
        """Does not begin what waits under a lease that is no longer held; whether it did wait."""
        before = len(self.ready)
        # Both: the tasks of one claim share its token.
        self.ready = deque(one for one in self.ready if (one.task, one.token) != lease)
        return len(self.ready) < before

    async def aclose(self) -> None:
        """Ends all that runs, and begins no more: what becomes of the tasks is the caller's."""
        self.ready.clear()
        under_way = chain(self.running.values(), self.leaving)
        tasks = [running.task for running in under_way if running.task is not None]
        stuck = [running.task for running in self.stuck if running.task is not None]
        for task in (*tasks, *stuck):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
