"""Eager mode: a task runs in the call that enqueues it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rqueue.sync import LOOP
from rqueue.task.state import FINAL, LEASED
from rqueue.testing.driver import Driver
from rqueue.testing.memory import Memory

if TYPE_CHECKING:
    from rqueue.producer.handle import Handle
    from rqueue.queue import Queue

# The methods of `Internals` that submit tasks.
SUBMITTING = ("enqueue_call", "enqueue_document", "enqueue_many")


@contextmanager
def eager(queue: Queue, *, raise_errors: bool = True, **options: Any) -> Iterator[Memory]:
    """Runs each task in this process before the call that enqueues it returns.

    Delays are skipped, also those between attempts. If a task dies, the call raises the exception
    of its handler; without `raise_errors`, the handle's `result` raises TaskDead. Until the end of
    the block the queue is in memory; options are those of `memory`.
    """
    with Memory(queue, **options) as memory:
        runner = EagerRunner(memory, raise_errors=raise_errors)
        internals = queue._internals
        for name in SUBMITTING:
            setattr(internals, name, runner.wrapped(getattr(internals, name)))
        yield memory


class EagerRunner:
    """Wraps the calls that submit tasks, and runs the tasks."""

    def __init__(self, memory: Memory, *, raise_errors: bool) -> None:
        self.memory = memory
        self.raise_errors = raise_errors

    def wrapped(self, submit: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Returns a call that submits tasks and runs them before it returns."""

        async def submit_and_run(*args: Any, **kwargs: Any) -> Any:
            found = await submit(*args, **kwargs)
            handles = found if isinstance(found, list) else [found]
            if asyncio.get_running_loop() is LOOP.loop:
                # Handlers may make blocking calls, which need the loop that runs this coroutine.
                await asyncio.to_thread(asyncio.run, self.run(handles))
            else:
                await self.run(handles)
            return found

        return submit_and_run

    async def run(self, handles: Sequence[Handle]) -> None:
        """Runs these tasks until they have ended or cannot run."""
        for handle in handles:
            while handle.created and await self.attempted(handle):
                continue

    async def attempted(self, handle: Handle) -> bool:
        """Runs one attempt of a task; returns whether there may be another."""
        queue = self.memory.queue
        before = await queue.get(handle.id)
        if before.state in FINAL:
            return False
        if before.state in LEASED:
            # Submitted in one call with a task whose run has claimed it too.
            await queue._internals.ended(handle.id)
            return False
        if before.available_at is not None and before.available_at > self.memory.now:
            await queue.run_now(handle.id)
        await Driver(self.memory).run(raise_errors=self.raise_errors)
        after = await queue.get(handle.id)
        return (after.state, after.epoch) != (before.state, before.epoch)
