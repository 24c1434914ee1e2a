"""The data of `rqueue top`: a snapshot of a queue, read in bounded time, with rates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.clock import SYSTEM
from rqueue.errors import StoreUnavailable
from rqueue.task.state import State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.core.counts import ActiveTask, Counts, Failure, Overview
    from rqueue.queue import Queue
    from rqueue.task.ids import TaskId
    from rqueue.task.task import Task

# How many of the longest-running and of the last failed tasks are read in full.
SHOWN = 10
# A server that does not answer within this is shown as unavailable, and asked again.
PATIENCE_SEC = 3.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Submitted and completed tasks per second since the previous frame."""

    submitted: float
    completed: float
    by_type: dict[str, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """A snapshot of the queue; `rates` is set from the second frame on."""

    queue: str
    address: str
    at: datetime
    clock: float
    counts: Counts
    look: Overview
    tasks: dict[TaskId, Task]
    rates: Rates | None = None

    @property
    def longest(self) -> list[ActiveTask]:
        """The tasks leased for the longest time."""
        return longest(self.look)

    @property
    def failures(self) -> list[Failure]:
        """The latest failures."""
        return self.look.failures[:SHOWN]

    def completed(self, type: str) -> int:
        """The number of completed tasks of a type since the queue was created."""
        return self.counts.by_type.get(type, {}).get(State.COMPLETED, 0)


@dataclass(frozen=True, slots=True)
class View:
    """The last frame that was read, and the error of a later read that failed."""

    frame: Frame | None
    trouble: str = ""


async def take(queue: Queue, before: Frame | None = None) -> Frame:
    """Reads a frame. The cost grows with the lanes and workers, not with the tasks."""
    from rqueue.core.counts import read_overview  # noqa: PLC0415 - completion needs no moves

    counts, seen = await queue.counts(), await read_overview(queue._internals.shard)
    shown = {one.task.ulid for one in longest(seen)}
    shown |= {one.task.ulid for one in seen.failures[:SHOWN]}
    tasks = [task for task in await queue._internals.runtime.reader.read(sorted(shown)) if task]
    frame = Frame(
        queue=queue.name,
        address=queue._internals.runtime.connection.address,
        at=SYSTEM.now(),
        clock=SYSTEM.monotonic(),
        counts=counts,
        look=seen,
        tasks={task.id: task for task in tasks},
    )
    return frame if before is None else replace(frame, rates=rates(before, frame))


def longest(seen: Overview) -> list[ActiveTask]:
    """The examined tasks that have been leased for the longest time."""
    return sorted(seen.active, key=lambda one: -one.for_ms)[:SHOWN]


def rates(before: Frame, now: Frame) -> Rates:
    """The rates between two frames; never negative, even if the queue was emptied."""
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
    """Yields a view after each interval until `stop` is set; retries if the server fails."""
    view = View(None)
    while not stop.is_set():
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                view = View(await take(queue, view.frame))
        except (StoreUnavailable, TimeoutError) as error:
            address = queue._internals.runtime.connection.address
            silence = f"{address}: no answer within {PATIENCE_SEC:g} s"
            view = View(view.frame, str(error) or silence)
        yield view
        await waited(stop, interval_sec)


async def waited(stop: asyncio.Event, seconds: float) -> None:
    """Waits for so many seconds, or until `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
