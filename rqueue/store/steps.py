"""What the steps of a running task gave, kept once while its lease is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import InvalidTask, LeaseLost
from rqueue.model.ids import TaskId
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.store.leases import Held
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


async def step(shard: Shard, held: Held, name: str, result: bytes = b"") -> bytes:
    """Keeps what a step gave, unless something is kept under its name, and tells what is: nothing
    where nothing is and none was given. Raises LeaseLost where the lease is not held, InvalidTask
    where it cannot be kept.
    """
    terms = shard.terms
    if len(result) > terms.max_result_bytes:
        rule = f"gave {len(result)} bytes of JSON; {terms.max_result_bytes} are allowed"
        raise InvalidTask(f"step {name}", f"{rule} (max_result_bytes): keep where it is instead")
    args: dict[str, Argument] = {
        "task": held.task,
        "token": held.token,
        "name": name,
        "result": result,
        "most": terms.max_steps,
    }
    reply = await shard.run("task/step", args)
    match text(reply[0]):
        case "LOST":
            raise LeaseLost(TaskId.from_ulid(held.task), held.token)
        case "FULL":
            rule = f"is one more than the {terms.max_steps} that a task may keep (max_steps)"
            raise InvalidTask(f"step {name}", rule)
        case _:
            (kept,) = ok("task/step", held.task, reply)
            return bytes(kept)
