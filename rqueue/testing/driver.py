"""Runs the handlers of a queue in memory with a real worker, until there is nothing to run."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from typing_extensions import override

from rqueue.core.reader import claimed_task
from rqueue.errors import RQueueError
from rqueue.producer.handle import outcome
from rqueue.task.attempt.outcome import Failed
from rqueue.task.state import State
from rqueue.worker.attempt import failure_of
from rqueue.worker.handler import Handler, Registry
from rqueue.worker.settle import FAILED, SettleHooks
from rqueue.worker.shared_slots import SharedSlots
from rqueue.worker.worker import Worker

if TYPE_CHECKING:
    from rqueue.core.claim import Grant
    from rqueue.core.leases import Settled
    from rqueue.producer.arguments import Offered
    from rqueue.task.ids import TaskId
    from rqueue.testing.memory import Memory
    from rqueue.testing.timeline import Snapshot, Timeline
    from rqueue.worker.context import Context
    from rqueue.worker.slots import Running

# The worker is polled less and less often while a handler runs.
POLL_SEC, MAX_POLL_SEC = 0.001, 0.02
# The default limit of attempts, so that tasks which create tasks endlessly end the test.
MOST = 1000
# The kinds of handlers that can be wrapped. A subprocess imports its function by name.
WATCHED = ("async", "thread")


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt that has ended, and the state of its task after it.

    `error` is the exception of the handler, None if it returned.
    """

    id: TaskId
    type: str
    attempt: int
    state: State
    error: BaseException | None = None


class Recorder(SettleHooks):
    """Records the attempts that the worker has settled, in their order."""

    def __init__(self, settle_hooks: SettleHooks, raised: Sequence[BaseException]) -> None:
        super().__init__(settle_hooks.hooks)
        self.raised = raised
        self.grants: dict[tuple[str, str], Grant] = {}
        self.ran: list[Ran] = []

    def keep(self, running: Running, outcome: bytes | Failed | None) -> None:
        """Keeps the grant of an ended attempt until it is settled."""
        super().keep(running, outcome)
        self.grants[running.grant.task, running.grant.token] = running.grant

    def settled_first(self, ctx: Context, outcome: bytes | Failed) -> None:
        """Records an attempt whose task was completed before it ran."""
        super().settled_first(ctx, outcome)
        message = outcome.message if isinstance(outcome, Failed) else ""
        task = ctx.task
        self.record(Ran(task.id, task.type, ctx.attempt, State.COMPLETED), message)

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """Records completed attempts, given the reply for each."""
        super().completed(done, words)
        for row, word in zip(done, words, strict=True):
            grant = self.grants.pop((row.task, row.token), None)
            if grant is not None and word == "OK":
                self.record(ran(grant, State.COMPLETED))

    def failed(self, failed: Sequence[tuple[Grant, Failed]], words: Sequence[str]) -> None:
        """Records failed attempts, given the reply for each."""
        super().failed(failed, words)
        for (grant, how), word in zip(failed, words, strict=True):
            self.grants.pop((grant.task, grant.token), None)
            if word in FAILED:
                self.record(ran(grant, State(word)), how.message)

    def record(self, one: Ran, message: str = "") -> None:
        """Records an attempt with the exception of its handler, which is found by its message."""
        errors = (error for error in self.raised if failure_of(error).message == message)
        self.ran.append(replace(one, error=next(errors, None) if message else None))


def ran(grant: Grant, state: State) -> Ran:
    """Returns the attempt of a grant."""
    task = claimed_task(grant)
    return Ran(task.id, task.type, grant.attempts + 1, state)


class OrderlyWorker(Worker):
    """A worker without prefetch, so that tasks run in the order of the queue."""

    @override
    def capacity(self) -> int:
        """Returns the number of free slots."""
        return 0 if self.draining else max(self.slots.size - self.slots.busy, 0)


class Driver:
    """One run of a worker over a queue in memory."""

    def __init__(
        self, memory: Memory, *, concurrency: int = 1, most: int = MOST, **offer: Unpack[Offered]
    ) -> None:
        self.memory = memory
        self.most = most
        raised: list[BaseException] = []
        made = memory.queue.worker(**offer)
        registry = watched(made.parts.registry, raised)
        parts = replace(made.parts, registry=registry, random=memory.random)
        served = made.session.waiter.offer
        self.worker = OrderlyWorker(
            parts, served, name=made.name, shared_slots=SharedSlots(concurrency)
        )
        self.recorder = Recorder(self.worker.executor.settle_hooks, raised)
        self.worker.executor.settle_hooks = self.recorder

    async def run(self, *, advance: bool = False, raise_errors: bool = False) -> list[Ran]:
        """Runs tasks until none is claimable; with `advance`, until none becomes claimable by
        waiting either. Returns the attempts.
        """
        working = asyncio.get_running_loop().create_task(self.worker.run())
        pause, ticked = POLL_SEC, False
        try:
            while not working.done():
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_POLL_SEC)
                self.check_end()
                if raise_errors:
                    await self.raise_first()
                now = await self.timeline.snapshot(self.worker.session.waiter.name)
                idle = self.is_idle(now)
                if now.due - self.timeline.stuck or (idle and not ticked):
                    await self.memory.connection.through(self.timeline.tick())
                    pause, ticked = POLL_SEC, idle
                elif idle and not (advance and await self.jump()):
                    break
                elif not idle:
                    ticked = False
            if raise_errors:
                await self.raise_first()
        finally:
            # The worker releases the tasks of handlers that still run.
            self.worker.stop()
            await working
        return self.recorder.ran

    @property
    def timeline(self) -> Timeline:
        """The timeline of the queue."""
        return self.memory.timeline

    async def jump(self) -> bool:
        """Moves to the next instant at which something falls due; returns whether there is one."""
        return await self.memory.connection.through(self.timeline.jump())

    def check_end(self) -> None:
        """Raises RuntimeError after too many attempts."""
        if len(self.recorder.ran) > self.most:
            raise RuntimeError(
                f"more than {self.most} attempts: tasks may create tasks without end"
            )

    def is_idle(self, now: Snapshot) -> bool:
        """Returns whether the worker has no task and its claim waits at the server. Then no task is
        claimable, because the server answers a waiting claim as soon as one is.
        """
        worker, waiter = self.worker, self.worker.session.waiter
        if worker.slots.busy or worker.unsettled or worker.session.unconfirmed:
            return False
        same = now.seq == waiter.seq and now.version == str(waiter.lanes.version)
        return worker.waiting_claim.waiting and now.waits and same

    async def raise_first(self) -> None:
        """Raises the exception of the first dead task's handler, else the error of its result."""
        for one in self.recorder.ran:
            if one.state is State.DEAD_LETTERED:
                raise one.error or await self.refused(one.id)

    async def refused(self, task: TaskId) -> RQueueError:
        """Returns the error of a dead task whose handler raised none."""
        try:
            outcome(await self.memory.queue.get(task))
        except RQueueError as error:
            return error
        raise AssertionError(f"{task} is not dead")


def watched(registry: Registry, raised: list[BaseException]) -> Registry:
    """Returns the same handlers; their exceptions are added to `raised`."""
    found = Registry()
    found.handlers = {type: watch(one, raised) for type, one in registry.handlers.items()}
    return found


def watch(handler: Handler, raised: list[BaseException]) -> Handler:
    """Returns the same handler; its exceptions are added to `raised`."""
    function: Any = handler.function

    @functools.wraps(function)
    async def coroutine(**arguments: Any) -> Any:
        try:
            return await function(**arguments)
        except BaseException as error:
            raised.append(error)
            raise

    @functools.wraps(function)
    def plain(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except BaseException as error:
            raised.append(error)
            raise

    if handler.kind not in WATCHED:
        return handler
    return replace(handler, function=coroutine if handler.kind == "async" else plain)
