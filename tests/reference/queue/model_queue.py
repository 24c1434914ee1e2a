"""A queue on the reference model, with a clock that the test moves, and the services and the worker
that run on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue import Queue
from rqueue.clock import SYSTEM
from rqueue.core.claim import WaitingClaim
from rqueue.dags.resumer import Resumer
from rqueue.errors import ConfigError
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.maintenance.rescorer import Rescorer
from rqueue.producer import arguments
from rqueue.producer.drafts import Drafter
from rqueue.runtime import assemble, ms
from rqueue.store.keys import Keys
from rqueue.store.lanes import lane_words
from rqueue.task.lane import serves
from rqueue.testing.driver import POLL_SEC, OrderlyWorker
from rqueue.testing.memory import CLAIM_WAIT_MS
from rqueue.testing.timeline import ManualClock
from rqueue.worker.shared_slots import SharedSlots
from tests.reference.gates import is_open, limits_of
from tests.reference.model import Model
from tests.reference.queue.model_connection import ModelConnection
from tests.reference.queue.model_server import ModelServer
from tests.reference.turns import tenant_is_open

if TYPE_CHECKING:
    from random import Random

    from rqueue.runtime import Runtime
    from rqueue.settings.load import Settings
    from rqueue.task.lane import Lane
    from tests.reference.queue.model_server import ModelServer


T = TypeVar("T")


class Timeline:
    """The clock, and the services of a scheduler: what is due happens in order of time."""

    def __init__(self, server: ModelServer, runtime: Runtime, random: Random) -> None:
        self.server = server
        self.clock = clock = server.clock
        shard, reader, settings = runtime.shard, runtime.reader, runtime.settings
        self.lease_ms = round(settings.lease_sec * 1000)
        self.promoter = Promoter(shard)
        self.reaper = Reaper(shard, reader, settings, clock=clock, random=random)
        self.rescorer = Rescorer(shard, reader)
        self.resumer = Resumer(shard, Drafter(settings, clock))
        self.blocked: set[str] = set()

    def move(self, until_ms: int) -> None:
        """Advances the clock to that time; due work runs at its own time on the way."""
        if until_ms < self.clock.ms:
            raise ConfigError("time", "does not go backwards")
        while (due_ms := self.next_ms()) is not None and due_ms <= until_ms:
            self.clock.ms = due_ms
            self.tick()
        self.clock.ms = until_ms
        self.tick()

    def tick(self) -> None:
        """Runs all services once."""
        with self.server.lock:
            before = self.unfinished_work()
        run_sync(self.reaper.tick())
        run_sync(self.rescorer.tick())
        run_sync(self.promoter.tick())
        run_sync(self.resumer.tick())
        with self.server.lock:
            self.blocked = before & self.unfinished_work()

    def unfinished_work(self) -> set[str]:
        """Operations that the services must continue."""
        model = self.server.model
        return {
            *model.unfinished,
            *model.cancelling,
            *(f"resolve {task}" for task in model.telling),
        }

    @property
    def overdue(self) -> bool:
        """Whether a task is due or an operation is unfinished, except for operations that did not
        progress in the last tick.
        """
        with self.server.lock:
            due = self.server.model.delayed().values()
            return (
                any(at <= self.clock.ms for at in due) or not self.unfinished_work() <= self.blocked
            )

    def next_ms(self) -> int | None:
        """The time of the next due event; None if there is none."""
        model = self.server.model
        with self.server.lock:
            due = [
                *model.delayed().values(),
                *(record.seen_ms + self.lease_ms for record in model.leased()),
                *model.deadlines.values(),
                *model.deliveries.values(),
                *(model.wakes.values() if model.ready() else ()),
            ]
        return min((at_ms for at_ms in due if at_ms > self.clock.ms), default=None)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never blocks, as calls of the model. Returns its result.

    So plain tests can move the clock and read tasks, as well as coroutines.
    """
    while True:
        try:
            waits_for = work.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        if waits_for is not None:
            work.close()
            raise RuntimeError(f"{work!r} waits for {waits_for!r}")


class Driver:
    """One run of a worker over a queue."""

    def __init__(self, queue: ModelQueue) -> None:
        self.queue = queue
        made = queue.queue.worker()
        self.offer = made.session.waiter.offer
        self.worker = OrderlyWorker(
            made.parts, self.offer, name=made.name, shared_slots=SharedSlots(1)
        )

    async def run(self) -> None:
        """Runs all tasks until nothing is left, and advances the clock where it must."""
        working = asyncio.get_running_loop().create_task(self.worker.run())
        try:
            while not working.done():
                await asyncio.sleep(POLL_SEC)
                if self.queue.timeline.overdue:
                    self.queue.timeline.tick()
                elif self.idle() and not self.queue.jump():
                    break
        finally:
            self.worker.stop()
            await working

    def idle(self) -> bool:
        """Whether the worker has no task and would get none."""
        model = self.queue.model
        with self.queue.server.lock:
            if self.worker.slots.busy or model.leased(self.worker.name):
                return False
            lanes = {number: lane for lane, number in model.lanes.items()}
            waiting = {record.lane for record in model.ready()}
            served = {n: lanes[n] for n in waiting if serves(self.offer, lanes[n])}
            return not any(self.may_claim(n, lane) for n, lane in served.items())

    def may_claim(self, number: int, lane: Lane) -> bool:
        """Whether a task of a lane may be leased now."""
        rules, model = self.worker.shard.rules(), self.queue.model
        if not is_open(model, number, lane, limits_of(rules.limits)):
            return False
        words: Any = lane_words(number, lane, rules)
        return not lane.keyed or tenant_is_open(model, number, words[-1])


class ModelQueue:
    """A queue whose calls go to the model. Its clock only moves on request."""

    def __init__(self, settings: Settings, *, seed: int = 0) -> None:
        self.random = Random(seed)
        self.clock = ManualClock(SYSTEM.now())
        self.model = Model(
            archive=settings.archive != "none",
            max_lanes=settings.max_lanes,
            result_ttl_ms=ms(settings.result_ttl_sec),
            max_nodes=settings.max_dag_nodes,
        )
        self.model.now_ms = self.clock.ms
        self.server = ModelServer(self.model, self.clock)
        keys = Keys(settings.namespace, settings.name)
        connection = ModelConnection(self.server, keys, timeout_sec=settings.call_timeout_sec)
        self.runtime = runtime = assemble(settings, connection)
        runtime.shard.terms = replace(
            runtime.shard.terms, claim_wait_ms=CLAIM_WAIT_MS, wait_replicas=0
        )
        self.timeline = Timeline(self.server, runtime, self.random)
        self.queue = queue = Queue(settings.name, runtime=runtime)
        internals = queue._internals
        internals.clock = internals.drafter.clock = internals.settler.clock = self.clock
        internals.settler.parker.random = self.random

    def advance(self, seconds: float) -> None:
        """Advances the clock: delayed tasks become due, leases expire."""
        self.timeline.move(self.clock.ms + ms(seconds))

    def jump(self) -> bool:
        """Advances the clock to the next due event; returns whether there is one."""
        due_ms = self.timeline.next_ms()
        if due_ms is not None:
            self.timeline.move(due_ms)
        return due_ms is not None

    async def run_until_idle(self) -> None:
        """Runs all tasks with a worker of the queue until nothing is left."""
        await Driver(self).run()

    def crash_worker(self, *, types: Iterable[str], started: bool) -> None:
        """A worker claims a task, perhaps starts it, and stops without a trace."""
        name = f"crashed-{self.random.getrandbits(32):08x}"
        offer = arguments.offer_of(types, (), ())
        waiter = WaitingClaim(self.runtime.shard, name, offer, name=name, lasts=True)
        run_sync(waiter.claim(1, start=started))
