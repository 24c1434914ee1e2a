"""The event loop of serving processes: uvloop if installed, garbage collection tuned, and an end
that does not wait for handlers that do not stop.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from rqueue.process.worker_process import exit_now
from rqueue.task.attempt.classify import log_fields

# New objects before Python collects cycles among them. The objects of a batch are freed before that
# and never examined; with Python's default of 700 this took a fifth of the archiver's time.
YOUNG = 20_000


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, of uvloop if it is installed."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    loop: asyncio.AbstractEventLoop = factory()
    return loop


def tune_gc() -> None:
    """Reduces the work of Python's garbage collector: modules are never freed, and the objects of a
    batch are freed soon and have no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


T = TypeVar("T")
LOG = logging.getLogger("rqueue.worker")
# Tasks of the loop that do not end within this after cancellation are abandoned.
LEAVE_SEC = 1.0


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs the work, then ends the process without waiting for handlers that do not stop."""
    tune_gc()
    loop = new_loop()
    left = False
    try:
        finish(loop, work)
    finally:
        left = not close(loop)
    if left or any(not thread.daemon for thread in threading.enumerate()[1:]):
        # A handler that does not stop: its task was released, so it is not waited for.
        exit_now(0)


def finish(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Runs the work and returns its result. A SystemExit or KeyboardInterrupt of a handler's
    sub-task leaves the event loop directly. The code that awaits the sub-task also receives it, so
    the loop is continued. A loop that a handler has stopped is continued too.
    """
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if not task.done() and is_real(error):
                raise
            if not task.done():
                LOG.error("sub-task exit ignored, worker continues", extra=log_fields(error))
        except RuntimeError:
            if task.done() or loop.is_closed():
                raise
            LOG.error("event loop stopped by a handler, worker continues")
        if task.done():
            return task.result()


def is_real(error: BaseException) -> bool:
    """Whether it is a Ctrl-C, which is possible until the loop handles signals."""
    real = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return real and isinstance(error, KeyboardInterrupt)


def close(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancels the remaining tasks and closes the loop. False if a task did not end; the loop then
    stays open.
    """
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, left = finish(loop, asyncio.wait(left, timeout=LEAVE_SEC))
    if left:
        return False
    finish(loop, loop.shutdown_asyncgens())
    finish(loop, loop.shutdown_default_executor())
    loop.close()
    return True
