"""Eager mode: a task runs in the call that enqueues it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rqueue.model.state import FINAL, IN_HAND
from rqueue.sync import LOOP
from rqueue.testing.driving import Driver
from rqueue.testing.memory import Memory

if TYPE_CHECKING:
    from rqueue.client.handle import Handle
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
        for name in TAKING:
            setattr(queue, name, at_once.around(getattr(queue, name)))
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
        """One attempt of a task; whether there may be another."""
        queue, model = self.memory.queue, self.memory.model
        record = model.tasks[handle.id.ulid]
        if record.state in FINAL:
            return False
        if record.state in IN_HAND:
            # It came together with another that was run before it, and is run with that one.
            await queue.ended(handle.id)
            return False
        if record.due_ms > model.now_ms:
            await queue.run_now(handle.id)
        ran = await Driver(self.memory).run(raise_errors=self.raise_errors)
        return any(one.id == handle.id for one in ran)
