"""The messages between a worker and its subprocesses, and their encoding."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from rqueue.task.task import Note

if TYPE_CHECKING:
    from logging import LogRecord

    from rqueue.errors import RQueueError
    from rqueue.task.artifact import Artifact
    from rqueue.task.attempt.outcome import Failed
    from rqueue.task.task import Task
    from rqueue.worker.context import Suspended
    from rqueue.worker.context.artifacts import Shelf
    from rqueue.worker.context.spawn import SpawnRequest, Subtask, Wait

# The length prefix of each message.
LENGTH = Struct(">Q")


@dataclass(frozen=True, slots=True)
class Order:
    """To the subprocess: run an attempt with this function."""

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
    """To the subprocess: stop the attempt with this token."""

    token: str


@dataclass(frozen=True, slots=True)
class Begun:
    """From the subprocess: the handler is imported and starts."""

    task: str
    token: str
    pid: int


@dataclass(frozen=True, slots=True)
class Spawn:
    """Tasks to spawn, and whether the attempt waits for them."""

    requests: Sequence[SpawnRequest]
    wait: Wait


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step to store; empty to read the stored one."""

    name: str
    result: bytes


@dataclass(frozen=True, slots=True)
class Attach:
    """An artifact that the attempt has stored."""

    artifact: Artifact


Request = Note | Spawn | Step | Attach


@dataclass(frozen=True, slots=True)
class Ask:
    """From the subprocess: carry out a request of the attempt; without a request, read the task."""

    number: int
    task: str
    token: str
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """To the subprocess: the answer to an Ask."""

    number: int
    found: Task | list[Subtask] | bytes | None = None
    error: RQueueError | Suspended | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """From the subprocess: the attempt's encoded result, or its failure; None if its task is
    suspended. `last` if the subprocess takes no further attempt.
    """

    outcome: bytes | Failed | None
    task: str
    token: str
    pid: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class Logged:
    """From the subprocess: a log record."""

    record: LogRecord


def packed(message: object) -> bytes:
    """Encodes a message. Pickle is safe here: both processes belong to one program and one user."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def unpacked(data: bytes) -> Any:
    """Decodes a message without its length prefix."""
    return pickle.loads(data)
