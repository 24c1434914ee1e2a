"""A queue at one moment, as `rqueue top` shows it: read in bounded time, with rates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.clock import SYSTEM
from rqueue.errors import StoreUnavailable
from rqueue.model.state import State
from rqueue.store.look import Failure, Look, Underway, look

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.client.counts import Counts
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task
    from rqueue.queue import Queue

# Tasks that are read whole, of those that run longest and of those that failed last.
SHOWN = 10
# A server that does not answer within this is shown as away, and asked again.
PATIENCE_SEC = 3.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What came in and what was completed in a second, since the frame before."""

    submitted: float
    completed: float
    by_type: dict[str, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment; `rates` are there from the second frame on."""

    queue: str
    address: str
    at: datetime
    clock: float
    counts: Counts
    look: Look
    tasks: dict[TaskId, Task]
    rates: Rates | None = None

    @property
    def longest(self) -> list[Underway]:
        """What has been in hand for longest."""
        return longest(self.look)

    @property
    def failures(self) -> list[Failure]:
        """What failed last."""
        return self.look.failures[:SHOWN]

    def completed(self, type: str) -> int:
        """How many tasks of a type have completed since the queue began."""
        return self.counts.by_type.get(type, {}).get(State.COMPLETED, 0)


@dataclass(frozen=True, slots=True)
class View:
    """What can be shown now: the last frame there was, and what keeps the next one away."""

    frame: Frame | None
    trouble: str = ""


async def take(queue: Queue, before: Frame | None = None) -> Frame:
    """The queue as it is now, in time that grows with its lanes and workers, not its tasks."""
    counts, seen = await queue.counts(), await look(queue.shard)
    shown = {one.task.ulid for one in longest(seen)}
    shown |= {one.task.ulid for one in seen.failures[:SHOWN]}
    tasks = [task for task in await queue.runtime.reader.read(sorted(shown)) if task]
    frame = Frame(
        queue=queue.name,
        address=queue.runtime.connection.address,
        at=SYSTEM.now(),
        clock=SYSTEM.monotonic(),
        counts=counts,
        look=seen,
        tasks={task.id: task for task in tasks},
    )
    return frame if before is None else replace(frame, rates=rates(before, frame))


def longest(seen: Look) -> list[Underway]:
    """Of what was looked at, what has been in hand for longest."""
    return sorted(seen.underway, key=lambda one: -one.for_ms)[:SHOWN]


def rates(before: Frame, now: Frame) -> Rates:
    """What has changed in a second; a queue that was emptied meanwhile counts from nothing."""
    seconds = max(now.clock - before.clock, 0.001)

    def rate(was: int, known: int) -> float:
        return max(0, known - was) / seconds

    done = State.COMPLETED
    return Rates(
        submitted=rate(before.counts.submitted, now.counts.submitted),
        completed=rate(before.counts[done], now.counts[done]),
        by_type={
            type: rate(before.completed(type), now.completed(type)) for type in now.counts.by_type
        },
    )


async def follow(queue: Queue, interval_sec: float, stop: asyncio.Event) -> AsyncIterator[View]:
    """A view after each interval, until `stop`; a server that is away is waited for, for ever."""
    view = View(None)
    while not stop.is_set():
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                view = View(await take(queue, view.frame))
        except (StoreUnavailable, TimeoutError) as error:
            silence = f"{queue.runtime.connection.address}: no answer within {PATIENCE_SEC:g} s"
            view = View(view.frame, str(error) or silence)
        yield view
        await waited(stop, interval_sec)


async def waited(stop: asyncio.Event, seconds: float) -> None:
    """Returns after so long, or when `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
