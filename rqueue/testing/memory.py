"""A queue in memory during a test: the user's own queue on the server of the test process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
from rqueue.handlers import TaskFunction
from rqueue.internals import Internals
from rqueue.producer import arguments
from rqueue.queue import MAX_CLAIM
from rqueue.runtime import Runtime, assemble, ms
from rqueue.store.replies import text
from rqueue.testing.driver import MOST, Driver, Ran
from rqueue.testing.server import DATABASES, THREAD, ClockedRunner, ThreadConnection
from rqueue.testing.timeline import ManualClock, Timeline, ms_of

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Unpack

    from rqueue.core.claim import Grant
    from rqueue.producer.arguments import Offered
    from rqueue.queue import Queue
    from rqueue.task.state import State
    from rqueue.task.task import Task

T = TypeVar("T")

# How long a claim waits: longer than a test moves the time.
CLAIM_WAIT_MS = 100 * 365 * 86_400_000

# The maximum number of tasks in the message of a failed assertion.
SHOWN = 20


class Memory:
    """Sends all calls of a queue to a server of this process instead of its own, during
    `with memory(queue):`. Time stands still until it is moved. Afterwards the queue is as before.
    """

    connection: ThreadConnection
    runtime: Runtime
    timeline: Timeline

    def __init__(self, queue: Queue, *, now: datetime | None = None, seed: int = 0) -> None:
        self.queue = queue
        self.random = Random(seed)
        self.clock = ManualClock(now or SYSTEM.now())
        # Created by the first artifact, deleted at the end of the `with`.
        self.folder = Path(gettempdir()) / f"rqueue-memory-{token_hex(16)}"
        self.database = -1
        # The tasks as they were at the end of the `with`, to be read after it.
        self.final: list[Task] | None = None
        self.saved: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Memory({self.queue!r}, {self.now:%Y-%m-%d %H:%M:%S})"

    def open(self) -> None:
        """Builds the parts of the queue over an empty database."""
        settings, shelf = self.queue.settings, self.queue._internals.runtime.shelf
        url, self.database = DATABASES.take()
        timeout_sec = settings.call_timeout_sec
        self.connection = ThreadConnection(url, self.clock, timeout_sec=timeout_sec)
        self.runtime = runtime = assemble(
            settings,
            self.connection,
            shelf=Shelf(Directory(self.folder), shelf.rules, queue=shelf.queue),
            runner=ClockedRunner(self.connection),
        )
        terms = replace(runtime.shard.terms, claim_wait_ms=CLAIM_WAIT_MS, wait_replicas=0)
        runtime.shard.terms = terms
        self.timeline = Timeline(runtime, self.clock, self.random)
        self.wait(self.timeline.set(self.clock.ms))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the thread of all tests and returns its result. May be called in a
        running event loop.
        """
        return THREAD.run(work)

    # Entering and leaving.

    def __enter__(self) -> Self:
        self.open()
        internals = self.queue._internals
        self.saved = dict(vars(internals))
        Internals.__init__(internals, internals.name, self.runtime, internals.given)
        # Handlers and hooks are kept; references to them stay valid.
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
        self.final = self.all_tasks()
        self.connection.close()
        DATABASES.release(self.database)

    # Time.

    @property
    def now(self) -> datetime:
        """The current time of the queue."""
        return self.clock.now()

    def advance(self, seconds: float) -> None:
        """Moves the time forward: delays, retries and leases that are over in between come due."""
        self.wait(self.timeline.move(self.clock.ms + ms(arguments.seconds_of("seconds", seconds))))

    def move_to(self, when: datetime | str) -> None:
        """Moves the time forward to an instant. Raises ConfigError for one in the past."""
        self.wait(self.timeline.move(ms_of(arguments.instant_of("when", when))))

    def jump(self) -> bool:
        """Moves to the next instant at which something falls due; returns whether there is one."""
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
        """Runs the ready tasks with a worker of this queue until none is left; returns the
        attempts.

        With `advance`, also moves the time to whatever falls due next, until nothing does. With
        `raise_errors`, raises the exception of the first dead task's handler. Raises RuntimeError
        after `most` attempts. A handler that waits for another task needs a `concurrency` of 2.
        """
        driver = Driver(self, concurrency=concurrency, most=most, **offer)
        return await driver.run(advance=advance, raise_errors=raise_errors)

    @cached_property
    def sync(self) -> BlockingMemory:
        """The blocking version of `run_until_idle`, for tests without an event loop."""
        return BlockingMemory(self)

    def crash_worker(
        self, n: int = 1, *, types: Iterable[str] | None = None, started: bool = True
    ) -> list[Task]:
        """Claims and starts up to `n` tasks as a worker that is then lost; returns the tasks. When
        their leases have expired they are retried and an attempt is spent. Without `started`, they
        return without one.
        """
        number = arguments.number_of("n", n, most=MAX_CLAIM)
        name = f"crashed-{self.random.getrandbits(32):08x}"
        offer = arguments.offer_of(types, (), ())
        waiter = WaitingClaim(self.runtime.shard, name, offer, name=name, lasts=True)
        grants: list[Grant] = self.wait(waiter.claim(number, start=started)).grants
        return self.read([grant.task for grant in grants])

    # Tasks.

    def tasks(
        self,
        *,
        status: State | str | None = None,
        type: str | TaskFunction[Any, Any] | None = None,
        tag: str | None = None,
    ) -> list[Task]:
        """Returns the current tasks, including ended ones, in the order of their submits."""
        states = None if status is None else arguments.states_of([status])
        return [
            task
            for task in self.all_tasks()
            if (states is None or task.state in states)
            and (type is None or task.type == type_of(type))
            and (tag is None or tag in task.spec.tags)
        ]

    def all_tasks(self) -> list[Task]:
        """Returns all tasks that have not expired, in the order of their submits."""
        if self.final is not None:
            return self.final
        return self.read([text(id) for id in self.wait(self.timeline.tasks())])

    def read(self, ids: list[str]) -> list[Task]:
        """Returns the tasks with these ids that have not expired."""
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
        """Returns the tasks of a type, in any state, whose payload contains these parts and which
        have these options (`priority=5`). Raises AssertionError if there is none, or not `count`.
        """
        return check(self.tasks(), Expected(type_of(task), payload, options), count)

    def assert_not_enqueued(
        self, task: str | TaskFunction[Any, Any], payload: object = None, **options: Any
    ) -> None:
        """Raises AssertionError if such a task was enqueued."""
        check(self.tasks(), Expected(type_of(task), payload, options), 0)


class BlockingMemory:
    """The coroutine methods of a memory, for tests without an event loop."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def run_until_idle(self, **options: Any) -> list[Ran]:
        """Runs `Memory.run_until_idle` in an event loop of its own."""
        return asyncio.run(self.memory.run_until_idle(**options))


@dataclass(frozen=True, slots=True)
class Expected:
    """What a test expects of a task: its type, parts of its payload, and options."""

    type: str
    payload: object = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, task: Task) -> bool:
        """Returns whether a task is as expected."""
        return (
            task.type == self.type
            and (self.payload is None or contains(task.payload, self.payload))
            and all(getattr(task.spec, name) == value for name, value in self.options.items())
        )

    def __str__(self) -> str:
        payload = "" if self.payload is None else f" with {self.payload!r}"
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.type}{payload}{options}"


def type_of(task: str | TaskFunction[Any, Any]) -> str:
    """Returns the type of a task function, or the type that is given by name."""
    return task.type if isinstance(task, TaskFunction) else task


def contains(found: object, wanted: object) -> bool:
    """Returns whether a payload contains the wanted parts. A mapping may have more items, anything
    else must be equal.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(name in found and contains(found[name], wanted[name]) for name in wanted)
    return found == wanted


def check(tasks: Sequence[Task], expected: Expected, count: int | None) -> list[Task]:
    """Returns the expected tasks. Raises AssertionError, which lists all tasks, if their number is
    wrong.
    """
    found = [task for task in tasks if expected.fits(task)]
    if len(found) == count or (count is None and found):
        return found
    wanted = "at least one" if count is None else str(count)
    raise AssertionError(
        f"{expected}: {wanted} expected, {len(found)} enqueued; the queue has\n{shown(tasks)}"
    )


def shown(tasks: Iterable[Task]) -> str:
    """Returns a text with one line per task."""
    lines = [f"  {task.type} {task.payload!r} {task.state}" for task in tasks]
    left = len(lines) - SHOWN
    more = [f"  ... and {left} more"] if left > 0 else []
    return "\n".join([*lines[:SHOWN], *more]) or "  nothing"
