"""Operations on tasks from outside: cancel, and changes while a task waits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rqueue.store.replies import ok, text
from rqueue.store.shard import ANSWER_LIMITS, CANCEL_LIMIT, TRIES, ending

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.ids import TaskId

Dependents = Literal["cascade", "unblock"]
# The reply while a cascade has tasks to reach.
CASCADING = 2


async def cancel(
    shard: Shard, tasks: Sequence[str], *, reason: str, dependents: Dependents = "cascade"
) -> list[str]:
    """Cancels live tasks: OK, GONE or STATE:<found> for each. Returns when the cascade
    is complete.
    """
    words: list[str] = []
    left = list(tasks)
    while True:
        page, left = left[:CANCEL_LIMIT], left[CANCEL_LIMIT:]
        reply = await cancel_page(shard, page, reason, dependents)
        words += [text(word) for word in reply[2:]]
        # Where only claims are left to answer, another call finds the same.
        if not left and int(reply[0]) < CASCADING:
            return words


async def cancel_page(
    shard: Shard, tasks: Sequence[str], reason: str, dependents: Dependents
) -> list[bytes]:
    """One call of the move; without tasks it continues a cascade."""
    args: dict[str, Argument] = {
        "reason": reason,
        "dependents": dependents,
        "limit": CANCEL_LIMIT,
        "how": ending(shard.terms),
        "request": secrets.token_hex(8),
        **ANSWER_LIMITS,
    }
    return ok("task/cancel", "", await shard.run("task/cancel", args, [(task,) for task in tasks]))


async def set_priority(shard: Shard, task: TaskId, *, base: int, was: int) -> None:
    """Changes the base priority, given in millionths of a point, and the position in the lane."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "priority": base,
        "was": was,
        **shard.request_args(),
    }
    ok("task/set_priority", task, await shard.run("task/set_priority", args))


async def reschedule(
    shard: Shard, task: TaskId, *, delay_ms: int | None = None, at_ms: int | None = None
) -> int:
    """Delays a waiting task until another time, which is returned in ms."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "delay": "" if delay_ms is None else delay_ms,
        "at": "" if at_ms is None else at_ms,
        **shard.request_args(),
    }
    return int(ok("task/reschedule", task, await shard.run("task/reschedule", args))[0])


async def run_now(shard: Shard, task: TaskId) -> bool:
    """Makes a task that waits for its time READY; whether it was waiting for one."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "tries": TRIES,
        "events": shard.terms.events,
        **shard.request_args(),
    }
    return int(ok("task/run_now", task, await shard.run("task/run_now", args))[1]) > 0


async def edit(shard: Shard, task: TaskId, *, was: bytes, definition: bytes) -> bool:
    """Replaces a waiting task's definition; False when it was changed since it was read."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "was": was,
        "def": definition,
        **shard.request_args(),
    }
    reply = await shard.run("task/edit", args)
    if text(reply[0]) == "CHANGED":
        return False
    ok("task/edit", task, reply)
    return True
