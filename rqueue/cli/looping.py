"""The event loop of a process that serves: it turns until its work is done, whatever code of other
people runs on it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from rqueue.cli.engine import calm, new_loop
from rqueue.policy.fault import told
from rqueue.services.duty import exit_now

T = TypeVar("T")

LOG = logging.getLogger("rqueue.worker")
# What does not end within this when it is cancelled is left behind.
LEAVE_SEC = 1.0


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs it, and leaves behind what does not end with it."""
    calm()
    loop = new_loop()
    left = False
    try:
        finish(loop, work)
    finally:
        left = not close(loop)
    if left or any(not thread.daemon for thread in threading.enumerate()[1:]):
        # A handler that does not end: its task was given back, it is not waited for.
        exit_now(0)


def finish(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. A SystemExit or KeyboardInterrupt that a handler's sub-task raises comes
    out of the loop past all that awaits; it is the sub-task's, and who awaits that sees it: the
    loop goes on. So does one that a handler has stopped.
    """
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if not task.done() and is_real(error):
                raise
            if not task.done():
                LOG.error("a sub-task of a handler wanted to end the worker", extra=told(error))
        except RuntimeError:
            if task.done() or loop.is_closed():
                raise
            LOG.error("the event loop was stopped; it goes on")
        if task.done():
            return task.result()


def is_real(error: BaseException) -> bool:
    """Whether it is a Ctrl-C: only until the worker hears signals by its loop."""
    real = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return real and isinstance(error, KeyboardInterrupt)


def close(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancels what is left and closes the loop; False where something did not end, and neither did
    the loop.
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
