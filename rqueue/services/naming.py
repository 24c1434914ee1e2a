"""What workers and the attempts on their event loops are called."""

from __future__ import annotations

import os
import secrets
import socket

from rqueue.model.ids import TaskId

OURS = "rqueue"


def worker_name() -> str:
    """A name that no other worker has: where it runs, and a random end."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def attempt_name(type: str, task: str) -> str:
    """The name of the asyncio task that runs an attempt."""
    return f"{OURS} {type} {task}"


def attempt_of(name: str) -> dict[str, str]:
    """The queue's task and its type that a name of an asyncio task means; nothing where it is not
    of ours.
    """
    match name.split(" "):
        case [ours, type, task] if ours == OURS:
            return {"task": str(TaskId.from_ulid(task)), "type": type}
        case _:
            return {}
