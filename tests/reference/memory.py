"""A queue on the reference model: the whole queue, with no server behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from rqueue import Queue
from rqueue.clock import SYSTEM
from rqueue.core.claim import WaitingClaim
from rqueue.producer import arguments
from rqueue.runtime import assemble, ms
from rqueue.store.keys import Keys
from rqueue.testing.clock import ManualClock
from rqueue.testing.memory import FOR_EVER_MS
from tests.reference.connection import MemoryConnection
from tests.reference.driving import Driver
from tests.reference.model import Model
from tests.reference.server import MemoryServer
from tests.reference.timeline import Timeline, finish

if TYPE_CHECKING:
    from rqueue.settings.load import Settings


class Memory:
    """A queue whose calls go to the model. Time stands still until it is moved."""

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
        self.server = MemoryServer(self.model, self.clock)
        keys = Keys(settings.namespace, settings.name)
        connection = MemoryConnection(self.server, keys, timeout_sec=settings.call_timeout_sec)
        self.runtime = runtime = assemble(settings, connection)
        runtime.shard.terms = replace(
            runtime.shard.terms, claim_wait_ms=FOR_EVER_MS, wait_replicas=0
        )
        self.timeline = Timeline(self.server, runtime, self.random)
        self.queue = queue = Queue(settings.name, runtime=runtime)
        internals = queue._internals
        internals.clock = internals.drafter.clock = internals.settler.clock = self.clock
        internals.settler.parker.random = self.random

    def advance(self, seconds: float) -> None:
        """Lets so much time pass: what was delayed comes due, leases run out, retries come due."""
        self.timeline.move(self.clock.ms + ms(seconds))

    def jump(self) -> bool:
        """`advance` to where the next thing falls due; whether there was one."""
        due_ms = self.timeline.next_ms()
        if due_ms is not None:
            self.timeline.move(due_ms)
        return due_ms is not None

    async def run_until_idle(self) -> None:
        """Runs all there is to run with a worker of the queue, whatever has to be waited for."""
        await Driver(self).run()

    def crash_worker(self, *, types: Iterable[str], started: bool) -> None:
        """A worker claims a task, starts it, and is never heard of again."""
        name = f"crashed-{self.random.getrandbits(32):08x}"
        offer = arguments.offer_of(types, (), ())
        waiter = WaitingClaim(self.runtime.shard, name, offer, name=name, lasts=True)
        finish(waiter.claim(1, start=started))
