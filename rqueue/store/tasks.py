"""What is done to a task from outside: cancel, and changes while it waits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rqueue.store.replies import ok, text
from rqueue.store.shard import FREED, GIVEN_UP, TRIES, ending

if TYPE_CHECKING:
    from rqueue.model.ids import TaskId
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

Dependents = Literal["cascade", "unblock"]
# What the script says while a cascade has tasks to reach.
CASCADING = 2


async def cancel(
    shard: Shard, tasks: Sequence[str], *, reason: str, dependents: Dependents = "cascade"
) -> list[str]:
    """Ends live tasks: OK, GONE or STATE:<found> for each. Returns when the cascade is done."""
    words: list[str] = []
    left = list(tasks)
    while True:
        page, left = left[:GIVEN_UP], left[GIVEN_UP:]
        reply = await cancel_page(shard, page, reason, dependents)
        words += [text(word) for word in reply[2:]]
        # Where only claims are left to answer, another call finds the same.
        if not left and int(reply[0]) < CASCADING:
            return words


async def cancel_page(
    shard: Shard, tasks: Sequence[str], reason: str, dependents: Dependents
) -> list[bytes]:
    """One call of the script; without tasks it goes on with what a cascade left."""
    args: dict[str, Argument] = {
        "reason": reason,
        "dependents": dependents,
        "limit": GIVEN_UP,
        "how": ending(shard.terms),
        "request": secrets.token_hex(8),
        **FREED,
    }
    return ok("task/cancel", "", await shard.run("task/cancel", args, [(task,) for task in tasks]))


async def set_priority(shard: Shard, task: TaskId, *, base: int, was: int) -> None:
    """Moves a task in its lane; in millionths of a point."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "priority": base,
        "was": was,
        **shard.by_hand(),
    }
    ok("task/set_priority", task, await shard.run("task/set_priority", args))


async def reschedule(
    shard: Shard, task: TaskId, *, delay_ms: int | None = None, at_ms: int | None = None
) -> int:
    """Lets a waiting task wait until another time, which it returns in ms."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "delay": "" if delay_ms is None else delay_ms,
        "at": "" if at_ms is None else at_ms,
        **shard.by_hand(),
    }
    return int(ok("task/reschedule", task, await shard.run("task/reschedule", args))[0])


async def run_now(shard: Shard, task: TaskId) -> bool:
    """Ends a task's waiting for its time; whether it was waiting for one."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "tries": TRIES,
        "events": shard.terms.events,
        **shard.by_hand(),
    }
    return int(ok("task/run_now", task, await shard.run("task/run_now", args))[1]) > 0


async def edit(shard: Shard, task: TaskId, *, was: bytes, definition: bytes) -> bool:
    """Changes a waiting task's definition; False when someone changed it since it was read."""
    args: dict[str, Argument] = {
        "task": task.ulid,
        "was": was,
        "def": definition,
        **shard.by_hand(),
    }
    reply = await shard.run("task/edit", args)
    if text(reply[0]) == "CHANGED":
        return False
    ok("task/edit", task, reply)
    return True
