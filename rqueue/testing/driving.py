"""Runs the handlers of a queue in memory with a real worker, until there is nothing to run."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

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
    from rqueue.testing.timeline import Look, Timeline
    from rqueue.worker.context import Context
    from rqueue.worker.slots import Running

# A handler that takes long is looked at less and less often.
LOOK_SEC, LONGEST_LOOK_SEC = 0.001, 0.02
# Tasks that make tasks for ever shall not make a test that never ends.
MOST = 1000
# A process imports its function by name: nothing can stand before that one.
WATCHED = ("async", "thread")


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt that was run to its end, and the state in which it left its task.

    `error` is what the handler raised, if it did.
    """

    id: TaskId
    type: str
    attempt: int
    state: State
    error: BaseException | None = None


class Recorder(SettleHooks):
    """Keeps the attempts that the worker has ended, in their order."""

    def __init__(self, settle_hooks: SettleHooks, raised: Sequence[BaseException]) -> None:
        super().__init__(settle_hooks.hooks)
        self.raised = raised
        self.grants: dict[tuple[str, str], Grant] = {}
        self.ran: list[Ran] = []

    def keep(self, running: Running, outcome: bytes | Failed | None) -> None:
        """An attempt ended; the server has not said anything to it yet."""
        super().keep(running, outcome)
        self.grants[running.grant.task, running.grant.token] = running.grant

    def settled_first(self, ctx: Context, outcome: bytes | Failed) -> None:
        """An attempt ended whose task was completed before it ran."""
        super().settled_first(ctx, outcome)
        message = outcome.message if isinstance(outcome, Failed) else ""
        task = ctx.task
        self.record(Ran(task.id, task.type, ctx.attempt, State.COMPLETED), message)

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """The server's words to what was to be completed."""
        super().completed(done, words)
        for row, word in zip(done, words, strict=True):
            grant = self.grants.pop((row.task, row.token), None)
            if grant is not None and word == "OK":
                self.record(ran(grant, State.COMPLETED))

    def failed(self, failed: Sequence[tuple[Grant, Failed]], words: Sequence[str]) -> None:
        """The server's words to what was to be failed."""
        super().failed(failed, words)
        for (grant, how), word in zip(failed, words, strict=True):
            self.grants.pop((grant.task, grant.token), None)
            if word in FAILED:
                self.record(ran(grant, State(word)), how.message)

    def record(self, one: Ran, message: str = "") -> None:
        """An attempt with what its handler raised, found by its text."""
        errors = (error for error in self.raised if failure_of(error).message == message)
        self.ran.append(replace(one, error=next(errors, None) if message else None))


def ran(grant: Grant, state: State) -> Ran:
    """The attempt of a grant."""
    task = claimed_task(grant)
    return Ran(task.id, task.type, grant.attempts + 1, state)


class OrderlyWorker(Worker):
    """A worker that takes nothing ahead of a free slot: the order is the queue's own."""

    def room(self) -> int:
        """The free slots."""
        return 0 if self.draining else max(self.slots.size - self.slots.busy, 0)


class Driver:
    """One worker's run over a memory."""

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
        """What ran until nothing could; with `advance`, until nothing would by waiting either."""
        working = asyncio.get_running_loop().create_task(self.worker.run())
        pause, ticked = LOOK_SEC, False
        try:
            while not working.done():
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_LOOK_SEC)
                self.check_end()
                if raise_errors:
                    await self.raise_first()
                look = await self.timeline.look(self.worker.session.waiter.name)
                idle = self.is_idle(look)
                if look.due - self.timeline.stuck or (idle and not ticked):
                    await self.memory.connection.through(self.timeline.tick())
                    pause, ticked = LOOK_SEC, idle
                elif idle and not (advance and await self.jump()):
                    break
                elif not idle:
                    ticked = False
            if raise_errors:
                await self.raise_first()
        finally:
            # What a handler still has in hand here is given back: whoever waited has gone.
            self.worker.stop()
            await working
        return self.recorder.ran

    @property
    def timeline(self) -> Timeline:
        """The time of the queue."""
        return self.memory.timeline

    async def jump(self) -> bool:
        """Moves the time to where the next thing falls due; whether there was one."""
        return await self.memory.connection.through(self.timeline.jump())

    def check_end(self) -> None:
        """Gives up what seems to have no end."""
        if len(self.recorder.ran) > self.most:
            raise RuntimeError(f"more than {self.most} attempts: do tasks make tasks for ever?")

    def is_idle(self, look: Look) -> bool:
        """Whether the worker has nothing in hand and its claim waits at the server, which then has
        nothing to give: it answers a waiting claim as soon as it has.
        """
        worker, waiter = self.worker, self.worker.session.waiter
        if worker.slots.busy or worker.unsettled or worker.session.unconfirmed:
            return False
        asked = look.seq == waiter.seq and look.version == str(waiter.lanes.version)
        return worker.waiting_claim.waiting and look.waits and asked

    async def raise_first(self) -> None:
        """Raises what the handler of the first dead task raised, or else what its result would."""
        for one in self.recorder.ran:
            if one.state is State.DEAD_LETTERED:
                raise one.error or await self.refused(one.id)

    async def refused(self, task: TaskId) -> RQueueError:
        """The error of a dead task whose handler raised none."""
        try:
            outcome(await self.memory.queue.get(task))
        except RQueueError as error:
            return error
        raise AssertionError(f"{task} is not dead")


def watched(registry: Registry, raised: list[BaseException]) -> Registry:
    """The same handlers; what they raise is kept as it is."""
    found = Registry()
    found.handlers = {type: watch(one, raised) for type, one in registry.handlers.items()}
    return found


def watch(handler: Handler, raised: list[BaseException]) -> Handler:
    """A handler that keeps what it raises."""
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
