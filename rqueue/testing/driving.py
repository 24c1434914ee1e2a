"""Runs the handlers of a queue in memory with a real worker, until there is nothing to run."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from rqueue.client.handle import outcome
from rqueue.errors import RQueueError
from rqueue.model.ids import TaskId
from rqueue.model.state import State
from rqueue.policy.capability import serves
from rqueue.registry import Handler, Registry
from rqueue.services.attempt import failure_of
from rqueue.services.seats import Seats
from rqueue.services.worker import Worker
from rqueue.store.lanes import lane_words
from rqueue.testing.gating import is_open
from rqueue.testing.limits import limits_of
from rqueue.testing.timeline import finish
from rqueue.testing.turning import key_is_open

if TYPE_CHECKING:
    from rqueue.client.door import Offered
    from rqueue.model.lane import Lane
    from rqueue.testing.memory import Memory
    from rqueue.testing.story import Ended

LOOK_SEC = 0.001
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
        self.raised: list[BaseException] = []
        self.first = len(memory.server.ended)
        made = memory.queue.worker(**offer)
        registry = watched(made.parts.registry, self.raised)
        parts = replace(made.parts, registry=registry, random=memory.random)
        self.offer = made.talk.waiter.offer
        self.worker = OrderlyWorker(parts, self.offer, name=made.name, seats=Seats(concurrency))

    async def run(self, *, advance: bool = False, raise_errors: bool = False) -> list[Ran]:
        """What ran until nothing could; with `advance`, until nothing would by waiting either."""
        working = asyncio.get_running_loop().create_task(self.worker.run())
        try:
            while not working.done():
                await asyncio.sleep(LOOK_SEC)
                self.check_end()
                if raise_errors:
                    self.raise_first()
                if self.memory.timeline.overdue:
                    self.memory.timeline.tick()
                elif self.idle() and not (advance and self.memory.jump()):
                    break
        finally:
            # What a handler still has in hand here is given back: whoever waited has gone.
            self.worker.stop()
            await working
        return [self.told(one) for one in self.ended()]

    def ended(self) -> list[Ended]:
        """The attempts of this worker that have ended."""
        found = self.memory.server.ended[self.first :]
        return [one for one in found if one.worker == self.worker.name]

    def check_end(self) -> None:
        """Gives up what seems to have no end."""
        if len(self.ended()) > self.most:
            raise RuntimeError(f"more than {self.most} attempts: do tasks make tasks for ever?")

    def idle(self) -> bool:
        """Whether the worker has nothing in hand and would be given nothing."""
        model = self.memory.model
        with self.memory.server.lock:
            if self.worker.slots.busy or model.in_hand(self.worker.name):
                return False
            lanes = {number: lane for lane, number in model.lanes.items()}
            waiting = {record.lane for record in model.ready()}
            served = {n: lanes[n] for n in waiting if serves(self.offer, lanes[n])}
            return not any(self.may_give(n, lane) for n, lane in served.items())

    def may_give(self, number: int, lane: Lane) -> bool:
        """Whether something of a lane that has tasks may be handed out now."""
        rules, model = self.worker.shard.rules(), self.memory.model
        if not is_open(model, number, lane, limits_of(rules.limits)):
            return False
        words: Any = lane_words(number, lane, rules)
        return not lane.keyed or key_is_open(model, number, words[-1])

    def raise_first(self) -> None:
        """Raises what the handler of the first dead task raised, or else what its result would."""
        for one in self.ended():
            if one.state is State.DEAD_LETTERED:
                raise self.told(one).error or self.refused(TaskId.from_ulid(one.task))

    def refused(self, task: TaskId) -> RQueueError:
        """The error of a dead task whose handler raised none."""
        try:
            outcome(finish(self.memory.queue.get(task)))
        except RQueueError as error:
            return error
        raise AssertionError(f"{task} is not dead")

    def told(self, one: Ended) -> Ran:
        """An attempt with what its handler raised, found by its text."""
        errors = (error for error in self.raised if failure_of(error).message == one.message)
        error = next(errors, None) if one.message else None
        return Ran(TaskId.from_ulid(one.task), one.type, one.attempt, one.state, error)


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
