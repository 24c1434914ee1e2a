"""A queue in memory for the length of a test: the user's own queue on a server of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from random import Random
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rqueue.artifacts.place import Directory
from rqueue.artifacts.shelf import Shelf
from rqueue.clock import SYSTEM
from rqueue.core.claim import WaitingClaim
from rqueue.internals import Internals
from rqueue.producer import arguments
from rqueue.queue import MAX_CLAIM
from rqueue.runtime import Runtime, assemble, ms
from rqueue.store.replies import text
from rqueue.testing.clock import ManualClock, ms_of
from rqueue.testing.connection import ClockedRunner, ThreadConnection
from rqueue.testing.driving import MOST, Driver, Ran
from rqueue.testing.expecting import Expected, check, type_of
from rqueue.testing.server import DATABASE, THREAD
from rqueue.testing.timeline import Timeline

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Unpack

    from rqueue.core.claim import Grant
    from rqueue.handlers import TaskFunction
    from rqueue.producer.arguments import Offered
    from rqueue.queue import Queue
    from rqueue.task.state import State
    from rqueue.task.task import Task

T = TypeVar("T")

# A claim that waits does so however far the time is moved.
FOR_EVER_MS = 100 * 365 * 86_400_000


class Memory:
    """All calls of a queue go to a server of this process instead of its own, between
    `with memory(queue):` and its end. Time stands still until it is moved. Nothing of it is left
    in the queue.
    """

    connection: ThreadConnection
    runtime: Runtime
    timeline: Timeline

    def __init__(self, queue: Queue, *, now: datetime | None = None, seed: int = 0) -> None:
        self.queue = queue
        self.random = Random(seed)
        self.clock = ManualClock(now or SYSTEM.now())
        # Made by the first artifact, and gone with the last line of the `with`.
        self.folder = Path(gettempdir()) / f"rqueue-memory-{token_hex(16)}"
        self.database = -1
        # The tasks as they were in the end, for who looks at them afterwards.
        self.left: list[Task] | None = None
        self.saved: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Memory({self.queue!r}, {self.now:%Y-%m-%d %H:%M:%S})"

    def open(self) -> None:
        """The parts of a queue, over an empty database."""
        settings, shelf = self.queue.settings, self.queue._internals.runtime.shelf
        url, self.database = DATABASE.take()
        timeout_sec = settings.call_timeout_sec
        self.connection = ThreadConnection(url, self.clock, timeout_sec=timeout_sec)
        self.runtime = runtime = assemble(
            settings,
            self.connection,
            shelf=Shelf(Directory(self.folder), shelf.rules, queue=shelf.queue),
            runner=ClockedRunner(self.connection),
        )
        terms = replace(runtime.shard.terms, claim_wait_ms=FOR_EVER_MS, wait_replicas=0)
        runtime.shard.terms = terms
        self.timeline = Timeline(runtime, self.clock, self.random)
        self.wait(self.timeline.set(self.clock.ms))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives that runs on the thread of all tests, also in an event loop."""
        return THREAD.run(work)

    # Into the queue, and out of it.

    def __enter__(self) -> Self:
        self.open()
        internals = self.queue._internals
        self.saved = dict(vars(internals))
        Internals.__init__(internals, internals.name, self.runtime, internals.given)
        # The handlers and hooks are the user's: whoever has them already goes on with the same.
        internals.registry.handlers.update(self.saved["registry"].handlers)
        for each in fields(internals.hooks):
            setattr(internals.hooks, each.name, getattr(self.saved["hooks"], each.name))
        internals.clock = internals.drafter.clock = internals.settler.clock = self.clock
        internals.settler.parker.random = self.random
        return self

    def __exit__(self, *exc: object) -> None:
        self.saved["registry"].handlers.update(self.queue._internals.registry.handlers)
        vars(self.queue._internals).clear()
        vars(self.queue._internals).update(self.saved)
        rmtree(self.folder, ignore_errors=True)
        self.left = self.all_tasks()
        self.connection.close()
        DATABASE.give_back(self.database)

    # Time.

    @property
    def now(self) -> datetime:
        """The queue's time."""
        return self.clock.now()

    def advance(self, seconds: float) -> None:
        """Lets so much time pass: what was delayed comes due, leases run out, retries come due."""
        self.wait(self.timeline.move(self.clock.ms + ms(arguments.seconds_of("seconds", seconds))))

    def move_to(self, when: datetime | str) -> None:
        """`advance` to an instant; it does not go back."""
        self.wait(self.timeline.move(ms_of(arguments.instant_of("when", when))))

    def jump(self) -> bool:
        """`advance` to where the next thing falls due; whether there was one."""
        return self.wait(self.timeline.jump())

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
        number = arguments.number_of("n", n, most=MAX_CLAIM)
        name = f"crashed-{self.random.getrandbits(32):08x}"
        offer = arguments.offer_of(types, (), ())
        waiter = WaitingClaim(self.runtime.shard, name, offer, name=name, lasts=True)
        grants: list[Grant] = self.wait(waiter.claim(number, start=started)).grants
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
        states = None if status is None else arguments.states_of([status])
        return [
            task
            for task in self.all_tasks()
            if (states is None or task.state in states)
            and (type is None or task.type == type_of(type))
            and (tag is None or tag in task.spec.tags)
        ]

    def all_tasks(self) -> list[Task]:
        """All that are still kept, in the order in which they were enqueued."""
        if self.left is not None:
            return self.left
        return self.read([text(id) for id in self.wait(self.timeline.tasks())])

    def read(self, ids: list[str]) -> list[Task]:
        """The tasks of these ids that are still kept."""
        found = self.wait(self.runtime.reader.read(ids))
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
