"""A queue in memory for the length of a test: the user's own queue, with no server behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from random import Random
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Self

from rqueue.artifacts.shelf import Shelf
from rqueue.client import door
from rqueue.clock import SYSTEM
from rqueue.model.shelf import Directory
from rqueue.queue import Queue
from rqueue.runtime import Runtime, assemble, ms
from rqueue.store.claims import Waiter
from rqueue.store.keys import Keys
from rqueue.testing.clock import ManualClock, ms_of
from rqueue.testing.connection import MemoryConnection
from rqueue.testing.driving import MOST, Driver, Ran
from rqueue.testing.expecting import Expected, check, type_of
from rqueue.testing.model import Model
from rqueue.testing.server import MemoryServer
from rqueue.testing.timeline import Timeline, finish

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Unpack

    from rqueue.client.door import Offered
    from rqueue.function import TaskFunction
    from rqueue.model.state import State
    from rqueue.model.task import Task
    from rqueue.store.claims import Grant

# A claim that waits does so however far the time is moved.
FOR_EVER_MS = 100 * 365 * 86_400_000


class Memory:
    """All calls of a queue go here instead of to its server, between `with memory(queue):` and
    its end. Time stands still until it is moved. Nothing of it is left in the queue.
    """

    def __init__(self, queue: Queue, *, now: datetime | None = None, seed: int = 0) -> None:
        self.queue = queue
        self.random = Random(seed)
        self.clock = ManualClock(now or SYSTEM.now())
        settings = queue.settings
        self.model = Model(
            archive=settings.archive != "none",
            max_lanes=settings.max_lanes,
            result_ttl_ms=ms(settings.result_ttl_sec),
            max_nodes=settings.max_dag_nodes,
        )
        self.model.now_ms = self.clock.ms
        self.server = MemoryServer(self.model, self.clock)
        # Made by the first artifact, and gone with the last line of the `with`.
        self.folder = Path(gettempdir()) / f"rqueue-memory-{token_hex(16)}"
        shelf = queue.runtime.shelf
        self.shelf = Shelf(Directory(self.folder), shelf.rules, queue=shelf.queue)
        self.runtime = self.assembled()
        self.timeline = Timeline(self.server, self.runtime, self.random)
        self.saved: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Memory({self.queue!r}, {len(self.model.tasks)} tasks)"

    def assembled(self) -> Runtime:
        """The parts of a queue, over this server."""
        settings = self.queue.settings
        keys = Keys(settings.namespace, settings.name)
        connection = MemoryConnection(self.server, keys, timeout_sec=settings.call_timeout_sec)
        runtime = assemble(settings, connection, shelf=self.shelf)
        terms = replace(runtime.shard.terms, park_ms=FOR_EVER_MS, wait_replicas=0)
        runtime.shard.terms = terms
        return runtime

    # Into the queue, and out of it.

    def __enter__(self) -> Self:
        queue = self.queue
        self.saved = dict(vars(queue))
        Queue.__init__(queue, queue.name, runtime=self.runtime)
        # The handlers and hooks are the user's: whoever has them already goes on with the same.
        queue.registry.handlers.update(self.saved["registry"].handlers)
        for each in fields(queue.hooks):
            setattr(queue.hooks, each.name, getattr(self.saved["hooks"], each.name))
        queue.clock = queue.drafter.clock = queue.settler.clock = self.clock
        queue.settler.aside.random = self.random
        return self

    def __exit__(self, *exc: object) -> None:
        self.saved["registry"].handlers.update(self.queue.registry.handlers)
        vars(self.queue).clear()
        vars(self.queue).update(self.saved)
        rmtree(self.folder, ignore_errors=True)

    # Time.

    @property
    def now(self) -> datetime:
        """The queue's time."""
        return self.clock.now()

    def advance(self, seconds: float) -> None:
        """Lets so much time pass: what was delayed comes due, leases run out, retries come due."""
        self.timeline.move(self.clock.ms + ms(door.seconds_of("seconds", seconds)))

    def move_to(self, when: datetime | str) -> None:
        """`advance` to an instant; it does not go back."""
        self.timeline.move(ms_of(door.instant_of("when", when)))

    def jump(self) -> bool:
        """`advance` to where the next thing falls due; whether there was one."""
        due_ms = self.timeline.next_ms()
        if due_ms is not None:
            self.timeline.move(due_ms)
        return due_ms is not None

    # Work.

    async def run_until_idle(
        self,
        *,
        advance: bool = False,
        raise_errors: bool = False,
        concurrency: int = 1,
        most: int = MOST,
        **offer: Unpack[Offered],
    ) -> list[Ran]:
        """Runs what is ready with a worker of this queue, until nothing is; the attempts that ran.

        With `advance`, the time is moved to whatever falls due next as well, until nothing does.
        With `raise_errors`, the first task that dies raises what its handler raised. After `most`
        attempts it gives up with a RuntimeError. A handler that waits for another task needs a
        `concurrency` of 2.
        """
        driver = Driver(self, concurrency=concurrency, most=most, **offer)
        return await driver.run(advance=advance, raise_errors=raise_errors)

    @cached_property
    def sync(self) -> BlockingMemory:
        """The same for tests without an event loop."""
        return BlockingMemory(self)

    def crash_worker(
        self, n: int = 1, *, types: Iterable[str] | None = None, started: bool = True
    ) -> list[Task]:
        """A worker claims up to `n` tasks, starts them, and is never heard of again: after a
        lease's time they come back, and an attempt is spent. Not started, they come back free.
        """
        number = door.number_of("n", n, most=len(self.model.tasks) + 1)
        name = f"crashed-{self.random.getrandbits(32):08x}"
        offer = door.offer_of(types, (), ())
        waiter = Waiter(self.runtime.shard, name, offer, name=name, lasts=True)
        grants: list[Grant] = finish(waiter.claim(number, start=started)).grants
        return self.read([grant.task for grant in grants])

    # Looking.

    def tasks(
        self,
        *,
        status: State | str | None = None,
        type: str | TaskFunction[Any, Any] | None = None,
        tag: str | None = None,
    ) -> list[Task]:
        """The tasks as they are now, ended ones too, in the order in which they were enqueued."""
        states = None if status is None else door.states_of([status])
        return [
            task
            for task in self.read(list(self.model.tasks))
            if (states is None or task.state in states)
            and (type is None or task.type == type_of(type))
            and (tag is None or tag in task.spec.tags)
        ]

    def read(self, ids: list[str]) -> list[Task]:
        """The tasks of these ids that are still kept."""
        found = finish(self.runtime.reader.read(ids))
        return [task for task in found if task is not None]

    def assert_enqueued(
        self,
        task: str | TaskFunction[Any, Any],
        payload: object = None,
        *,
        count: int | None = None,
        **options: Any,
    ) -> list[Task]:
        """The tasks of a type that were enqueued, whatever became of them, with a payload that has
        these parts and with these options (`priority=5`); AssertionError where there is none, or
        not `count`.
        """
        return check(self.tasks(), Expected(type_of(task), payload, options), count)

    def assert_not_enqueued(
        self, task: str | TaskFunction[Any, Any], payload: object = None, **options: Any
    ) -> None:
        """AssertionError where such a task was enqueued."""
        check(self.tasks(), Expected(type_of(task), payload, options), 0)


class BlockingMemory:
    """What of a memory has to be awaited, for tests without an event loop."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def run_until_idle(self, **options: Any) -> list[Ran]:
        """`Memory.run_until_idle` in an event loop of its own."""
        return asyncio.run(self.memory.run_until_idle(**options))
