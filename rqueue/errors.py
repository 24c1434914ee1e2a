"""Every error rqueue raises. Fields carry the facts; the text is made from them.

RQueueError
├── SubmitError            the task was not taken
│   ├── InvalidTask        a field breaks a rule            .field .rule
│   ├── InvalidGraph       cycle, self-edge, unknown parent .path
│   ├── TooManyLanes       too many kinds of task           .limit
│   └── Overloaded         the server takes no new work     .reason
├── TaskError              the task is not as the caller believed
│   ├── TaskNotFound                                        .task
│   ├── WrongState         a move its state forbids         .task .found .wanted
│   ├── LeaseLost          someone else may run it          .task .token
│   └── KeyTaken           another live task has its key    .task .holder
├── ResultError            there is no result to give
│   ├── TaskDead           it failed for good               .task .reason .message
│   ├── TaskCancelled                                       .task .reason
│   └── ResultTimeout      it has not ended yet             .task .after
├── StoreError             Redis or Postgres
│   ├── StoreUnavailable   worth retrying                   .what
│   └── ScriptFault        a bug of ours                    .script .reply
├── ConfigError            a setting is missing or wrong    .setting .rule
└── HandlerSignal          raised by handlers, not by us
    ├── Retry              again, perhaps at a time         .after .reason
    └── Reject             never again: to the dead         .reason
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import SupportsFloat


class RQueueError(Exception):
    """The root: `except RQueueError` catches all that rqueue raises."""

    def __reduce__(self) -> tuple[object, ...]:
        # By its facts: what takes keywords could not be made again from its arguments.
        return remade, (type(self), self.args, self.__dict__)


def remade(kind: type[RQueueError], args: tuple[object, ...], facts: dict[str, object]) -> object:
    """An error that was pickled."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class SubmitError(RQueueError):
    """The task was not taken; nothing was written."""


class InvalidTask(SubmitError):
    """A field of the task breaks a rule."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class InvalidGraph(SubmitError):
    """The dependencies cannot be met: `path` names the tasks that show it."""

    def __init__(self, rule: str, path: Sequence[str]) -> None:
        super().__init__(rule, tuple(path))
        self.rule = rule
        self.path = tuple(path)

    def __str__(self) -> str:
        return f"{self.rule}: {' -> '.join(self.path)}"


class TooManyLanes(SubmitError):
    """The shard has as many kinds of task (type, agent, capabilities, rate) as it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the queue has {self.limit} lanes already; use fewer different types, "
            "capability sets and ageing rates, or raise max_lanes"
        )


class Overloaded(SubmitError):
    """The server takes no new work now; what it holds goes on draining."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"no new work is taken: {self.reason}; try again when the queue has drained"


class TaskError(RQueueError):
    """The task is not as the caller believed; nothing was changed."""


class TaskNotFound(TaskError):
    """No such task, or its keys have expired."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"{self.task} is not here: never submitted, or ended and expired"


class WrongState(TaskError):
    """A move that the task's state forbids."""

    def __init__(self, task: str, *, found: str, wanted: Iterable[str]) -> None:
        self.task = task
        self.found = str(found)
        self.wanted = tuple(sorted(str(state) for state in wanted))
        super().__init__(task, self.found, self.wanted)

    def __str__(self) -> str:
        return f"{self.task} is {self.found}; this needs {' or '.join(self.wanted)}"


class LeaseLost(TaskError):
    """The caller no longer holds the task: someone else may run it."""

    def __init__(self, task: str, token: str) -> None:
        super().__init__(task, token)
        self.task = task
        self.token = token

    def __str__(self) -> str:
        return f"the lease of {self.task} is no longer held; stop, and write nothing for it"


class KeyTaken(TaskError):
    """Another live task holds this task's idempotency key."""

    def __init__(self, task: str, holder: str) -> None:
        super().__init__(task, holder)
        self.task = task
        self.holder = holder

    def __str__(self) -> str:
        return f"the idempotency key of {self.task} belongs to {self.holder} now"


class ResultError(RQueueError):
    """There is no result to give."""


class TaskDead(ResultError):
    """The task failed for good and waits for a person."""

    def __init__(self, task: str, *, reason: str, message: str) -> None:
        super().__init__(task, reason, message)
        self.task = task
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.task} is dead ({self.reason}): {self.message}"


class TaskCancelled(ResultError):
    """The task was cancelled and will have no result."""

    def __init__(self, task: str, *, reason: str) -> None:
        super().__init__(task, reason)
        self.task = task
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.task} was cancelled: {self.reason or 'no reason given'}"


class ResultTimeout(ResultError, TimeoutError):
    """The task did not end within the time the caller gave; it goes on."""

    def __init__(self, task: str, *, after: float) -> None:
        super().__init__(task, after)
        self.task = task
        self.after = after

    def __str__(self) -> str:
        return f"{self.task} has not ended within {self.after:g} s; it goes on"


class StoreError(RQueueError):
    """Redis or Postgres did not do as asked."""


class StoreUnavailable(StoreError):
    """The server could not be reached or did not answer in time. Worth retrying.

    A call that fails so may have been carried out.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the server did not answer: {self.what}"


class ScriptFault(StoreError):
    """A script answered what its caller cannot read: a bug of rqueue, please report it."""

    def __init__(self, script: str, reply: object) -> None:
        super().__init__(script, reply)
        self.script = script
        self.reply = reply

    def __str__(self) -> str:
        return f"script {self.script} answered {self.reply!r}; please report this"


class ConfigError(RQueueError):
    """A setting is missing or wrong."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(setting, rule)
        self.setting = setting
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}: {self.rule}"


class HandlerSignal(RQueueError):
    """Raised by a handler to say how its attempt ends."""


class Retry(HandlerSignal):
    """Try again, after the policy's delay or after `after`: seconds or a timedelta.

    Raises ConfigError, which then fails the attempt, where that is none, or the reason no text.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = "asked for by the handler"
    ) -> None:
        self.after = None if after is None else seconds_in(after)
        self.reason = text_in("Retry.reason", reason)
        super().__init__(self.after, reason)

    def __str__(self) -> str:
        return self.reason


class Reject(HandlerSignal):
    """Never try again: the task goes to the dead letters.

    Raises ConfigError, which then fails the attempt, where the reason is no text.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = text_in("Reject.reason", reason)

    def __str__(self) -> str:
        return self.reason


def seconds_in(after: object) -> float:
    """A time to wait, in seconds."""
    given = after.total_seconds() if isinstance(after, timedelta) else after
    try:
        seconds = float(given) if isinstance(given, SupportsFloat) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError("Retry.after", f"is seconds from 0 on or a timedelta, not {after!r:.100}")
    return seconds


def text_in(name: str, given: object) -> str:
    """What a handler gave for a text."""
    if not isinstance(given, str):
        raise ConfigError(name, f"is a text, not {type(given).__name__}")
    return given
