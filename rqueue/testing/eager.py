"""Eager mode: a task runs in the call that enqueues it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rqueue.sync import LOOP
from rqueue.task.state import FINAL, LEASED
from rqueue.testing.driving import Driver
from rqueue.testing.memory import Memory

if TYPE_CHECKING:
    from rqueue.producer.handle import Handle
    from rqueue.queue import Queue

# The calls of a queue that take tasks.
TAKING = ("enqueue_call", "enqueue_document", "enqueue_many")


@contextmanager
def eager(queue: Queue, *, raise_errors: bool = True, **options: Any) -> Iterator[Memory]:
    """Runs each task at once, in this process, before the call that enqueues it returns.

    A delay is not waited for, nor is one between attempts. A task that dies raises what its handler
    raised, in the call that enqueued it; without `raise_errors`, its handle's `result` raises
    TaskDead. The queue is in memory meanwhile; options are those of `memory`.
    """
    with Memory(queue, **options) as memory:
        at_once = AtOnce(memory, raise_errors=raise_errors)
        internals = queue._internals
        for name in TAKING:
            setattr(internals, name, at_once.around(getattr(internals, name)))
        yield memory


class AtOnce:
    """Stands around the calls that take tasks, and runs what they took."""

    def __init__(self, memory: Memory, *, raise_errors: bool) -> None:
        self.memory = memory
        self.raise_errors = raise_errors

    def around(self, take: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The call, which returns after its tasks have ended."""

        async def taken(*args: Any, **kwargs: Any) -> Any:
            found = await take(*args, **kwargs)
            handles = found if isinstance(found, list) else [found]
            if asyncio.get_running_loop() is LOOP.loop:
                # Not in the loop of all blocking calls: a handler may make such calls itself.
                await asyncio.to_thread(asyncio.run, self.run(handles))
            else:
                await self.run(handles)
            return found

        return taken

    async def run(self, handles: Sequence[Handle]) -> None:
        """Runs these tasks to their ends, as far as they can run."""
        for handle in handles:
            while handle.created and await self.attempted(handle):
                continue

    async def attempted(self, handle: Handle) -> bool:
        """One attempt of a task, by whatever worker; whether there may be another."""
        queue = self.memory.queue
        before = await queue.get(handle.id)
        if before.state in FINAL:
            return False
        if before.state in LEASED:
            # It came together with another that was run before it, and is run with that one.
            await queue._internals.ended(handle.id)
            return False
        if before.available_at is not None and before.available_at > self.memory.now:
            await queue.run_now(handle.id)
        await Driver(self.memory).run(raise_errors=self.raise_errors)
        after = await queue.get(handle.id)
        return (after.state, after.epoch) != (before.state, before.epoch)
