"""What a worker and its child processes say to each other, and how it is written."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from rqueue.model.note import Note

if TYPE_CHECKING:
    from logging import LogRecord

    from rqueue.context import Suspended
    from rqueue.context.artifacts import Shelf
    from rqueue.errors import RQueueError
    from rqueue.model.artifact import Artifact
    from rqueue.model.attempt import Failed
    from rqueue.model.subtask import Subtask, Wait, Wish
    from rqueue.model.task import Task

# Before each message stands its length.
LENGTH = Struct(">Q")


@dataclass(frozen=True, slots=True)
class Order:
    """To the child: run an attempt of this task by the function that stands there."""

    type: str
    module: str
    name: str
    task: Task
    token: str
    worker: str
    max_result_bytes: int
    model: str | None = None
    shelf: Shelf | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """To the child: the attempt of this token is to end."""

    token: str


@dataclass(frozen=True, slots=True)
class Begun:
    """From the child: it has imported the handler, which runs from now on."""

    task: str
    token: str
    pid: int


@dataclass(frozen=True, slots=True)
class Spawn:
    """What the attempt is to spawn, and whether it waits for that."""

    wishes: Sequence[Wish]
    wait: Wait


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of the attempt gave; nothing to ask what is kept of it."""

    name: str
    result: bytes


@dataclass(frozen=True, slots=True)
class Attach:
    """An artifact that the attempt has put."""

    artifact: Artifact


Said = Note | Spawn | Step | Attach


@dataclass(frozen=True, slots=True)
class Ask:
    """From the child: keep this note, this step or this artifact of the attempt, or spawn this;
    without any of them, read the task.
    """

    number: int
    task: str
    token: str
    said: Said | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """To the child: what became of an Ask."""

    number: int
    found: Task | list[Subtask] | bytes | None = None
    error: RQueueError | Suspended | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """From the child: the attempt's encoded result, or how it failed; None where its task has left
    to wait for others. The `last` is of a child that takes no other.
    """

    outcome: bytes | Failed | None
    task: str
    token: str
    pid: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class Logged:
    """From the child: a line for the worker's log."""

    record: LogRecord


def packed(message: object) -> bytes:
    """A message as it is sent. It is pickled: both sides are one program of one user."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def unpacked(data: bytes) -> Any:
    """The message of what followed its length."""
    return pickle.loads(data)
