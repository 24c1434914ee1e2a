"""Runs the handlers of a queue on the model with a real worker, until there is nothing to run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rqueue.store.lanes import lane_words
from rqueue.task.lane import serves
from rqueue.testing.driving import LOOK_SEC, OrderlyWorker
from rqueue.worker.shared_slots import SharedSlots
from tests.reference.gating import is_open
from tests.reference.limits import limits_of
from tests.reference.turning import key_is_open

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.memory import Memory


class Driver:
    """One worker's run over a memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        made = memory.queue.worker()
        self.offer = made.session.waiter.offer
        self.worker = OrderlyWorker(
            made.parts, self.offer, name=made.name, shared_slots=SharedSlots(1)
        )

    async def run(self) -> None:
        """Runs all there is to run, whatever has to be waited for."""
        working = asyncio.get_running_loop().create_task(self.worker.run())
        try:
            while not working.done():
                await asyncio.sleep(LOOK_SEC)
                if self.memory.timeline.overdue:
                    self.memory.timeline.tick()
                elif self.idle() and not self.memory.jump():
                    break
        finally:
            self.worker.stop()
            await working

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
