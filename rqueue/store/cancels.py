"""Cancels that the driver swallows."""

from __future__ import annotations

import asyncio


def cancels_so_far() -> int:
    """How often the running task was asked to stop."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def check_cancelled(before: int) -> None:
    """Stops a task that was asked to and whose asking the driver swallowed.

    redis-py sends under `asyncio.wait_for`, which before Python 3.12 forgets a cancel that comes
    when the sending is just done.
    """
    if cancels_so_far() > before:
        raise asyncio.CancelledError
