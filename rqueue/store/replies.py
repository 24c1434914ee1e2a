"""Turns the replies of moves into values and errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rqueue.errors import (
    DagEnded,
    InvalidGraph,
    InvalidTask,
    KeyTaken,
    LeaseLost,
    ScriptFault,
    TaskNotFound,
    WrongState,
)
from rqueue.store.shard import EDGE_LIMIT
from rqueue.task.attempt.outcome import AttemptRecord
from rqueue.task.codec import MAX_INT, decode
from rqueue.task.ids import DagId, TaskId
from rqueue.task.spec import known_fields
from rqueue.task.state import TRANSITIONS, State

if TYPE_CHECKING:
    from rqueue.errors import RQueueError


WAITING = (State.PENDING, State.READY, State.RETRYING)
# Operations that are not in the table of moves, and the states they need.
NEEDS: dict[str, Sequence[State]] = {
    "edit": WAITING,
    "escalate": (State.DEAD_LETTERED,),
    "set_priority": (*WAITING, *TRANSITIONS["renew"].sources, State.DEAD_LETTERED),
}
NO_DEPENDENCY = "depends on a task that does not exist or was cancelled"
# Why a dead task cannot be retried with its dependencies.
UNMET = {
    "CYCLE": "depends on a task that now depends on it; discard one of them",
    "FAR": f"depends on tasks with more than {EDGE_LIMIT} edges, too many to search for a cycle; "
    "retry it when more of them have ended, or discard it",
    "PARENT": NO_DEPENDENCY,
}


def text(value: bytes | str | int) -> str:
    """A word of a reply."""
    return value.decode() if isinstance(value, bytes) else str(value)


def ok(move: str, task: str, reply: list[Any]) -> list[Any]:
    """The rest of a reply that begins with OK; raises the error of any other word."""
    match [text(reply[0]), *reply[1:]]:
        case ["OK", *rest]:
            return rest
        case ["GONE"]:
            raise TaskNotFound(task)
        case ["STATE", found]:
            raise WrongState(task, found=text(found), wanted=wanted(move))
        case ["CYCLE" | "FAR" | "PARENT" as word, *parent]:
            path = [TaskId.from_ulid(text(one)) for one in parent]
            raise InvalidGraph(UNMET[word], (task, *path) if word != "FAR" else (task,))
        case ["EXISTS", holder]:
            raise KeyTaken(task, TaskId.from_ulid(text(holder)))
        case ["CLOSING", dag]:
            raise DagEnded(DagId.from_ulid(text(dag)), "being cancelled")
        case _:
            raise ScriptFault(move, reply)


def lease_fault(move: str, task: str, token: str, word: str) -> RQueueError | None:
    """The error for a word about one lease; None for OK."""
    if word == "LOST":
        return LeaseLost(task, token)
    if word == "GONE":
        return TaskNotFound(task)
    if word.startswith("STATE:"):
        return WrongState(task, found=word[6:], wanted=wanted(move))
    return None


def wanted(move: str) -> Sequence[State]:
    """The states that a move needs."""
    verb = move.split("/")[1]
    return NEEDS[verb] if verb in NEEDS else sorted(TRANSITIONS[verb].sources)


# What reading unchecked bytes may raise; pydantic's own error is a ValueError.
UNREADABLE = (
    InvalidTask, ValueError, LookupError, ArithmeticError, AttributeError, TypeError,
    RecursionError,
)  # fmt: skip
ENTRY = re.compile("([0-9]+)-[0-9]+")
# The letters of flags are small, a ULID is not.
DAG = re.compile("[0-9A-Z]+")


def words(value: object) -> str:
    """A reply as text; bytes that are no UTF-8 are replaced."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def holder_in(text: str) -> tuple[int, int, str]:
    """When a task was claimed, when it was started (0 for not yet), and by whom."""
    claimed, started, owner = text.split(" ")
    return natural(claimed), natural(started), owner


def dag_in(flags: str) -> DagId | None:
    """The DAG that a task's flags name, if it has one."""
    found = DAG.search(flags)
    return DagId.parse(found[0]) if found else None


def failure_in(record: bytes) -> AttemptRecord:
    """The record of an attempt, without fields of newer releases."""
    found: Any = decode(record, field="failures")
    return AttemptRecord.parse(known_fields(AttemptRecord, found))


def life(more: str) -> int:
    """The number of a task's life; a first life stores nothing."""
    found: Any = decode(more.encode(), field="more") if more else {}
    return natural(found.get("life", 1))


def natural(number: str | bytes) -> int:
    """A whole number from 0 on that moves can handle."""
    found = int(number)
    if not 0 <= found <= MAX_INT:
        raise ValueError("out of range")
    return found


def entry_ms(entry: str) -> int:
    """When a stream entry was added."""
    found = ENTRY.fullmatch(entry)
    if found is None:
        raise ValueError("no id of an entry")
    return natural(found[1])


def moment(ms: int) -> datetime:
    """A time of the server as a datetime."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
