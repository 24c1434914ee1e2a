"""What an exception of other people's code means to what runs it: whose cancel it is, whose fault,
for which reason, and what a log line may say of it.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any

from rqueue.model.attempt import Reason, reason_of
from rqueue.policy.behind import DEEPEST, grouped
from rqueue.policy.limiting import status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
# Which of the reasons in a group is its own, the first first: what another attempt meets again, and
# what says more than that something went wrong. A cancel beside an error is its consequence.
FIRST = (
    Reason.BUDGET_EXCEEDED,
    Reason.RATE_LIMIT,
    Reason.AUTH_FAILURE,
    Reason.CRASH,
    Reason.TIMEOUT,
    Reason.INVALID_OUTPUT,
    Reason.ERROR,
    Reason.CANCELLED,
)


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


def reason_in(raised: Sequence[BaseException]) -> Reason:
    """The reason of an error, or of a group and all that were raised in it (see `together`)."""
    reasons = [
        reason
        for one in raised
        if (reason := reason_of(one)) is not Reason.ERROR or not grouped(one)
    ]
    return min(reasons, key=lambda reason: FIRST.index(reason.family), default=Reason.ERROR)


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
