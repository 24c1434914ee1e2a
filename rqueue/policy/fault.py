"""What an exception of other people's code means to what runs it: whose cancel it is, and what a
log line may say of it.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

from rqueue.policy.behind import DEEPEST
from rqueue.policy.limiting import status_of

# The innermost frames that are told.
FRAMES = 5
# Errors of connections that are no OSError, by the names of their classes: those of httpx, aiohttp,
# redis, database drivers, the clients of language models, and our own artifact store.
OUTSIDE = frozenset(
    {
        "APIConnectionError",
        "ArtifactsUnavailable",
        "ClientConnectionError",
        "ConnectionError",
        "InterfaceError",
        "OperationalError",
        "TimeoutError",
        "TransportError",
    }
)
SERVER_ERROR = 500


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


def is_outside(error: BaseException, depth: int = 0) -> bool:
    """Whether an error is of what a handler depends on, or was raised from one that is: of the
    system, a connection, or a service that is ill. Such an error says nothing of the task.
    """
    if isinstance(error, BaseExceptionGroup):
        return depth < DEEPEST and all(is_outside(one, depth + 1) for one in error.exceptions)
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, OSError) or names & OUTSIDE or (status_of(error) or 0) >= SERVER_ERROR:
        return True
    cause = error.__cause__
    return cause is not None and depth < DEEPEST and is_outside(cause, depth + 1)


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
