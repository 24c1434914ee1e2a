"""How an attempt ends: one vocabulary of reasons, the outcomes, and the record that is kept."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue, ValidationError

from rqueue.model.checked import Checked, Instant
from rqueue.model.state import IN_HAND, State


class Reason(StrEnum):
    """Why an attempt failed. Families first, then the finer words that belong to one."""

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
        """The word of the taxonomy it belongs to; itself for most."""
        return FAMILIES.get(self, self)

    @property
    def label(self) -> str:
        """The word metrics use: the family, with document B's short word for budgets."""
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
    """Say what a kind of exception, and all that derive from it, means."""
    REASONS[kind] = reason


def reason_of(error: BaseException) -> Reason:
    """The reason of the nearest registered class of the exception; `error` when there is none."""
    for kind in type(error).__mro__:
        if kind in REASONS:
            return REASONS[kind]
    return Reason.ERROR


class Cause(StrEnum):
    """Where the cause of a failure lies, as far as the failure itself tells: in the task or its
    handler; in what they depend on, such as a connection; or nowhere, since the handler only asked
    for another attempt.
    """

    WITHIN = "within"
    OUTSIDE = "outside"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned, and its output passed."""

    result: JsonValue = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed; `permanent` says that no other could do better, `alone` whether nothing
    ran beside it.
    """

    reason: Reason
    message: str
    permanent: bool = False
    retry_after: float | None = None
    cause: Cause = Cause.WITHIN
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker is gone; `state` is where it left the task, `alone` whether nothing ran beside."""

    state: State
    alone: bool = False

    def __post_init__(self) -> None:
        if self.state not in IN_HAND:
            raise ValueError(f"no worker holds a task that is {self.state}")


Outcome = Completed | Failed | Lost


class AttemptRecord(Checked):
    """What is remembered of an attempt that failed."""

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
