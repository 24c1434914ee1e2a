"""What an exception of other people's code means to what runs it: whose cancel it is, and what a
log line may say of it.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

# The innermost frames that are told.
FRAMES = 5


def is_cancelled() -> bool:
    """Whether the running task was asked to end; something that it awaits may have been, too."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def runs(task: asyncio.Task[Any] | None) -> bool:
    """Whether it is this task that runs now; a coroutine thrown away is closed by others."""
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:
        return False


def told(error: BaseException) -> dict[str, str]:
    """The class of an exception and where it was raised, innermost last; never its text, which may
    hold a payload.
    """
    kind = type(error)
    name = kind.__qualname__
    raised = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    frames = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    found = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-FRAMES:]]
    return {"raised": raised, "where": " > ".join(found)}
