"""What a running task asks of others that it spawns, and what it is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rqueue.errors import InvalidTask, SubtaskFailed
from rqueue.model.state import State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.model.call import Call
    from rqueue.model.ids import TaskId

# Until when a task waits for those that it spawned: not at all, their success, or their end.
Wait = Literal["", "success", "done"]


class Wish(NamedTuple):
    """A task that is to be spawned: under this key, and after these."""

    key: str
    call: Call | Mapping[str, Any]
    after: Sequence[str] = ()


class Subtask(NamedTuple):
    """A task that was spawned. Its state is None where its keys are gone; it has an output where
    it is completed, else a reason.
    """

    id: TaskId
    state: State | None = None
    output: JsonValue = None
    reason: str = ""


def named(key: str) -> str:
    """A key that a handler gave; numbers are those of tasks without one."""
    if not isinstance(key, str) or not key or key.isdigit():
        raise InvalidTask("key", "is a text that is no number: those are given by themselves")
    return key


def output_of(found: Subtask) -> JsonValue:
    """What a spawned task that was waited for has given."""
    failure = failure_of(found)
    if failure is not None:
        raise failure
    return found.output


def failure_of(found: Subtask) -> SubtaskFailed | None:
    """Why a spawned task that has ended gave no output, if so."""
    if found.state is State.COMPLETED:
        return None
    return SubtaskFailed(found.id, state=str(found.state or "gone"), reason=found.reason)
