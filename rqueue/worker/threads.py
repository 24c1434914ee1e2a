"""Threads for plain handlers. A thread cannot be killed: that of a stopped attempt runs on, and
another one takes its place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import Any

LOG = logging.getLogger("rqueue.worker")
# How many threads of stopped attempts may run on.
MAX_ABANDONED = 100
# The signals that a worker, its supervisor and its subprocesses handle.
HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGTTIN, signal.SIGTTOU)
BLOCKED = threading.local()


class Call:
    """A function call in a thread, and the future of its caller."""

    __slots__ = ("abandoned", "begun", "function", "future")

    def __init__(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.begun = False
        self.abandoned = False


class Threads:
    """Runs each call immediately in a thread of its own; the callers limit their number. Only
    threads of stopped calls are limited: above `max_abandoned`, calls wait for a free thread.

    All counters belong to the event loop. The threads are daemons and do not keep the process
    alive.
    """

    def __init__(self, max_abandoned: int = MAX_ABANDONED) -> None:
        self.max_abandoned = max_abandoned
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        self.idle = 0
        self.waiting = 0
        self.abandoned = 0
        self.warned = False
        self.closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """Returns or raises what the function does. If the caller is cancelled, a function that has
        begun runs on.
        """
        loop = asyncio.get_running_loop()
        call = Call(partial(copy_context().run, function), loop.create_future())
        self.ensure_thread(loop)
        self.calls.put(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            # A CancelledError that the function raises itself is an ordinary exception.
            if call.future.cancelled() and call.begun:
                call.abandoned = True
                self.abandoned += 1
            raise

    def ensure_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts a thread for the next call, unless one is idle or the limit is reached."""
        if self.idle:
            self.idle -= 1
        elif self.abandoned < self.max_abandoned:
            threading.Thread(
                target=self.work, args=(loop,), name="rqueue-handler", daemon=True
            ).start()
        else:
            self.waiting += 1
            self.warn_waiting()

    def warn_waiting(self) -> None:
        """Logs once that calls wait because of stopped handlers."""
        if not self.warned:
            self.warned = True
            LOG.error(
                "%d stopped handlers still run and others wait for a thread: check "
                "ctx.cancelled in them, or use kind='process'", self.abandoned,
            )  # fmt: skip

    def work(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: runs one call after another."""
        while (call := self.calls.get()) is not None:
            value, error = outcome_of(call)
            try:
                loop.call_soon_threadsafe(self.done, call, value, error)
            except RuntimeError:
                # The event loop is closed, so no caller waits.
                return
            del call, value, error

    def done(self, call: Call, value: Any, error: BaseException | None) -> None:
        """Passes the outcome of a call to its caller; the thread is free again."""
        self.abandoned -= call.abandoned
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
        """Ends the idle threads immediately, and the others when their calls have ended."""
        self.closed = True
        for _ in range(self.idle):
            self.calls.put(None)
        self.idle = 0


def outcome_of(call: Call) -> tuple[Any, BaseException | None]:
    """What the call returned or raised."""
    call.begun = True
    if call.future.cancelled():
        return None, None
    try:
        return call.function(), None
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: they end the attempt, not the thread.
        return None, error


@cache
def reset_signals_in_forks() -> None:
    """Makes every fork of this process handle signals like a new process. A fork inherits the
    wakeup file descriptor of this event loop, which would otherwise receive the fork's signals.
    """
    os.register_at_fork(
        before=block_signals, after_in_parent=unblock_signals, after_in_child=reset_signals
    )


def block_signals() -> None:
    """Blocks signals until the fork can handle them."""
    BLOCKED.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)


def unblock_signals() -> None:
    """Restores the signal mask."""
    mask = vars(BLOCKED).pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def reset_signals() -> None:
    """In the fork: detaches the event loop and restores the default handlers."""
    signal.set_wakeup_fd(-1)
    for number in HANDLED_SIGNALS:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    unblock_signals()
