"""What scripts answer, turned into values and errors: one place for every word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import (
    DagEnded,
    InvalidGraph,
    KeyTaken,
    LeaseLost,
    ScriptFault,
    TaskNotFound,
    WrongState,
)
from rqueue.model.ids import DagId, TaskId
from rqueue.model.state import TRANSITIONS, State
from rqueue.store.shard import EDGES

if TYPE_CHECKING:
    from rqueue.errors import RQueueError

WAITING = (State.PENDING, State.READY, State.RETRYING)
# Operations that are no move and the states they work in.
NEEDS: dict[str, Sequence[State]] = {
    "edit": WAITING,
    "escalate": (State.DEAD_LETTERED,),
    "set_priority": (*WAITING, *TRANSITIONS["renew"].sources, State.DEAD_LETTERED),
}

# Why what a task waited for when it died can never be there, or nobody can tell.
UNMET = {
    "CYCLE": "waited for a task that waits for it by now; discard one of them",
    "FAR": f"waits for tasks with more than {EDGES} edges, too many to look for a circle; "
    "revive it when more of them have ended, or discard it",
    "PARENT": "depends on a task that is not there or was cancelled",
}


def text(value: bytes | str | int) -> str:
    """A word of a reply."""
    return value.decode() if isinstance(value, bytes) else str(value)


def ok(script: str, task: str, reply: list[Any]) -> list[Any]:
    """The rest of a reply that begins with OK; the error of any other word."""
    match [text(reply[0]), *reply[1:]]:
        case ["OK", *rest]:
            return rest
        case ["GONE"]:
            raise TaskNotFound(task)
        case ["STATE", found]:
            raise WrongState(task, found=text(found), wanted=wanted(script))
        case ["CYCLE" | "FAR" | "PARENT" as word, *parent]:
            path = [TaskId.from_ulid(text(one)) for one in parent]
            raise InvalidGraph(UNMET[word], (task, *path) if word != "FAR" else (task,))
        case ["EXISTS", holder]:
            raise KeyTaken(task, TaskId.from_ulid(text(holder)))
        case ["CLOSING", dag]:
            raise DagEnded(DagId.from_ulid(text(dag)), "being given up")
        case _:
            raise ScriptFault(script, reply)


def lease_fault(script: str, task: str, token: str, word: str) -> RQueueError | None:
    """What a word about one lease means; nothing for OK."""
    if word == "LOST":
        return LeaseLost(task, token)
    if word == "GONE":
        return TaskNotFound(task)
    if word.startswith("STATE:"):
        return WrongState(task, found=word[6:], wanted=wanted(script))
    return None


def wanted(script: str) -> Sequence[State]:
    """The states that a script's move starts from."""
    verb = script.split("/")[1]
    return NEEDS[verb] if verb in NEEDS else sorted(TRANSITIONS[verb].sources)
