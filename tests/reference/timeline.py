"""Moves the time of a queue in memory, from one thing that is due to the next."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.dags.resumer import Resumer
from rqueue.errors import ConfigError
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.maintenance.rescorer import Rescorer
from rqueue.producer.drafts import Drafter

if TYPE_CHECKING:
    from random import Random

    from rqueue.runtime import Runtime
    from tests.reference.server import MemoryServer

T = TypeVar("T")


class Timeline:
    """The clock and the services that a scheduler would run: what is due happens in its order."""

    def __init__(self, server: MemoryServer, runtime: Runtime, random: Random) -> None:
        self.server = server
        self.clock = clock = server.clock
        shard, reader, settings = runtime.shard, runtime.reader, runtime.settings
        self.lease_ms = round(settings.lease_sec * 1000)
        self.promoter = Promoter(shard)
        self.reaper = Reaper(shard, reader, settings, clock=clock, random=random)
        self.rescorer = Rescorer(shard, reader)
        self.keeper = Resumer(shard, Drafter(settings, clock))
        self.stuck: set[str] = set()

    def move(self, until_ms: int) -> None:
        """Lets the time pass until then; what falls due on the way happens when it does."""
        if until_ms < self.clock.ms:
            raise ConfigError("time", "does not go backwards")
        while (due_ms := self.next_ms()) is not None and due_ms <= until_ms:
            self.clock.ms = due_ms
            self.tick()
        self.clock.ms = until_ms
        self.tick()

    def tick(self) -> None:
        """What the services do at this moment."""
        with self.server.lock:
            before = self.begun()
        finish(self.reaper.tick())
        finish(self.rescorer.tick())
        finish(self.promoter.tick())
        finish(self.keeper.tick())
        with self.server.lock:
            self.stuck = before & self.begun()

    def begun(self) -> set[str]:
        """What calls have left for the services to go on with."""
        model = self.server.model
        return {*model.unfinished, *model.cancelling, *(f"tell {task}" for task in model.telling)}

    @property
    def overdue(self) -> bool:
        """Whether something waits for a time that has come, or to be gone on with; not what the
        last tick could do nothing about.
        """
        with self.server.lock:
            due = self.server.model.delayed().values()
            return any(at <= self.clock.ms for at in due) or not self.begun() <= self.stuck

    def next_ms(self) -> int | None:
        """When the next thing falls due; None where nothing does."""
        model = self.server.model
        with self.server.lock:
            due = [
                *model.delayed().values(),
                *(record.seen_ms + self.lease_ms for record in model.in_hand()),
                *model.deadlines.values(),
                *model.handoffs.values(),
                *(model.wakes.values() if model.ready() else ()),
            ]
        return min((at_ms for at_ms in due if at_ms > self.clock.ms), default=None)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing but its turn: a memory answers at once.

    So time can be moved and tasks looked at from plain tests as well as from coroutines.
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
