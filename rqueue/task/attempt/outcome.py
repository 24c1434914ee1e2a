"""Outcomes of an attempt: the reasons of failures, the stored record, and previous attempts as a
handler gets them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import JsonValue, ValidationError

from rqueue.task.attempt.error_text import raised
from rqueue.task.fields import Checked, Instant
from rqueue.task.state import LEASED, State


class Reason(StrEnum):
    """Why an attempt failed: the families first, then finer reasons that belong to one."""

    TIMEOUT = "timeout"
    CRASH = "crash"
    RATE_LIMIT = "rate_limit"
    INVALID_OUTPUT = "invalid_output"
    AUTH_FAILURE = "auth_failure"
    BUDGET_EXCEEDED = "budget_exceeded"
    CANCELLED = "cancelled"
    ERROR = "error"
    HEARTBEAT_TIMEOUT = "heartbeat_timeout"
    CLAIM_EXPIRED = "claim_expired"
    WORKER_LOST = "worker_lost"
    INCOMPLETE = "incomplete"

    @property
    def family(self) -> "Reason":
        """The family it belongs to; most are their own."""
        return FAMILIES.get(self, self)

    @property
    def label(self) -> str:
        """The label in metrics: the family, with document B's short word for budgets."""
        return "budget" if self is Reason.BUDGET_EXCEEDED else str(self.family)


FAMILIES = {
    Reason.HEARTBEAT_TIMEOUT: Reason.CRASH,
    Reason.CLAIM_EXPIRED: Reason.CRASH,
    Reason.WORKER_LOST: Reason.CRASH,
    Reason.INCOMPLETE: Reason.INVALID_OUTPUT,
}

REASONS: dict[type[BaseException], Reason] = {
    TimeoutError: Reason.TIMEOUT,
    PermissionError: Reason.AUTH_FAILURE,
    ValidationError: Reason.INVALID_OUTPUT,
    asyncio.CancelledError: Reason.CANCELLED,
    MemoryError: Reason.CRASH,
}


def register(kind: type[BaseException], reason: Reason) -> None:
    """Sets the reason of an exception class and of those derived from it."""
    REASONS[kind] = reason


def reason_of(error: BaseException) -> Reason:
    """The reason of the nearest registered class of the exception; `error` when there is none."""
    for kind in type(error).__mro__:
        if kind in REASONS:
            return REASONS[kind]
    return Reason.ERROR


class Cause(StrEnum):
    """The cause of a failure, as far as it is known: the task or its handler; something that they
    depend on, such as a connection; or neither, since the handler requested another attempt.
    """

    WITHIN = "within"
    OUTSIDE = "outside"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned, and its output passed validation."""

    result: JsonValue = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed; `permanent` means that no other attempt could succeed, `exclusive` that
    nothing ran beside it.
    """

    reason: Reason
    message: str
    permanent: bool = False
    retry_after: float | None = None
    cause: Cause = Cause.WITHIN
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker was lost; `state` is the task's state then, `exclusive` means that
    nothing ran beside it.
    """

    state: State
    exclusive: bool = False

    def __post_init__(self) -> None:
        if self.state not in LEASED:
            raise ValueError(f"no worker holds a task that is {self.state}")


Outcome = Completed | Failed | Lost


class AttemptRecord(Checked):
    """The stored record of a failed attempt."""

    attempt: int
    epoch: int = 0
    agent: str | None = None
    reason: Reason = Reason.ERROR
    error: str = ""
    duration_sec: float | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    model: str | None = None
    at: Instant | None = None


# Where document A puts previous attempts in a payload.
CONTEXT, FIELD = "context", "previousAttempts"
# How many of the last attempts are included, and how many characters of each error.
MOST_SHOWN = 10
MOST_CHARS = 2000


def wants_history(payload: object, form: str) -> bool:
    """Whether a payload receives previous attempts: one with a `context` that has a field for them,
    and any with a `context` in form A.
    """
    context = payload.get(CONTEXT) if isinstance(payload, Mapping) else None
    return isinstance(context, Mapping) and (FIELD in context or form == "A")


def with_history(payload: Mapping[str, Any], history: Sequence[AttemptRecord]) -> dict[str, Any]:
    """The payload with previous attempts after what its producer wrote there: a text,
    or a list of texts.
    """
    context, lines = payload[CONTEXT], lines_of(history)
    written = context.get(FIELD)
    if isinstance(written, list):
        text: Any = [*written, *lines]
    else:
        text = "\n".join([written, *lines] if isinstance(written, str) and written else lines)
    return {**payload, CONTEXT: {**context, FIELD: text}}


def lines_of(history: Sequence[AttemptRecord]) -> list[str]:
    """One text for each of the last attempts that failed, oldest first."""
    return [line_of(record) for record in history[-MOST_SHOWN:]]


def line_of(record: AttemptRecord) -> str:
    """The attempt, its model and why it failed; of a traceback only the exception."""
    by = f" with {record.model}" if record.model else ""
    error = record.error.strip()
    found = raised(error)
    if found is not None:
        error = found.line
    why = f": {error[:MOST_CHARS]}" if error else ""
    return f"attempt {record.attempt}{by} failed, {record.reason}{why}"
