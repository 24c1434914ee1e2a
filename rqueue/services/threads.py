"""Threads for plain handlers. A thread cannot be ended: what is stopped from outside is left to run
on, and others take its place.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

LOG = logging.getLogger("rqueue.worker")
# So many threads of stopped attempts may run on beside the others.
MOST_LEFT = 100


class Call:
    """A function on its way through a thread, and where its caller waits."""

    __slots__ = ("begun", "function", "future", "left")

    def __init__(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.begun = False
        self.left = False


class Threads:
    """Runs each call at once in a thread of its own; how many there are is the callers' affair.
    Only the threads of stopped calls are bounded: beyond `most_left`, calls wait for a free one.

    All counts belong to the event loop. The threads are daemons: they never keep a process alive.
    """

    def __init__(self, most_left: int = MOST_LEFT) -> None:
        self.most_left = most_left
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        self.idle = 0
        self.waiting = 0
        self.left = 0
        self.told = False
        self.closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns or raises. Cancelled, the caller goes and the function stays,
        unless it has not begun.
        """
        loop = asyncio.get_running_loop()
        call = Call(partial(copy_context().run, function), loop.create_future())
        self.provide(loop)
        self.calls.put(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            # Raised by the function itself, it comes as any other exception.
            if call.future.cancelled() and call.begun:
                call.left = True
                self.left += 1
            raise

    def provide(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sees to it that a thread will take the next call."""
        if self.idle:
            self.idle -= 1
        elif self.left < self.most_left:
            threading.Thread(
                target=self.work, args=(loop,), name="rqueue-handler", daemon=True
            ).start()
        else:
            self.waiting += 1
            self.tell()

    def tell(self) -> None:
        """Says once that calls wait for what was stopped."""
        if not self.told:
            self.told = True
            LOG.error(
                "%d plain handlers run on although they were stopped; others now wait for a "
                "thread. Let them look at ctx.cancelled, or use kind='process'", self.left,
            )  # fmt: skip

    def work(self, loop: asyncio.AbstractEventLoop) -> None:
        """A thread: one call after the other."""
        while (call := self.calls.get()) is not None:
            value, error = outcome_of(call)
            try:
                loop.call_soon_threadsafe(self.done, call, value, error)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                return
            del call, value, error

    def done(self, call: Call, value: Any, error: BaseException | None) -> None:
        """Brings a call's end to its caller; its thread is free."""
        self.left -= call.left
        if self.closed:
            self.calls.put(None)
        elif self.waiting:
            self.waiting -= 1
        else:
            self.idle += 1
        if call.future.done():
            return
        if error is None:
            call.future.set_result(value)
        else:
            call.future.set_exception(error)

    def close(self) -> None:
        """Ends the idle threads at once, and the others as soon as their calls have ended."""
        self.closed = True
        for _ in range(self.idle):
            self.calls.put(None)
        self.idle = 0


def outcome_of(call: Call) -> tuple[Any, BaseException | None]:
    """What a call returns, or what it raises."""
    call.begun = True
    if call.future.cancelled():
        return None, None
    try:
        return call.function(), None
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: they end the attempt, not the thread.
        return None, error
