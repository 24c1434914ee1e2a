"""A task as it is read: what its producer requested, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, JsonValue, SkipValidation

from rqueue.errors import InvalidTask
from rqueue.task.artifact import Artifact
from rqueue.task.attempt.outcome import AttemptRecord
from rqueue.task.fields import LABEL, LABEL_RULE, Checked, Instant
from rqueue.task.ids import DagId, TaskId
from rqueue.task.priority import Tier, tier
from rqueue.task.spec import TaskSpec
from rqueue.task.state import FINAL, State

Count = Annotated[int, Field(ge=0)]
Json = Annotated[JsonValue, SkipValidation]


class Claim(Checked):
    """The holder of the task, and until when its lease lasts without a renewal."""

    agent_id: str
    claimed_at: Instant
    heartbeat_at: Instant
    lease_expires_at: Instant


class Tokens(Checked):
    """The input and output tokens of language models."""

    input: Count = 0
    output: Count = 0


class Task(Checked):
    """One task at one moment. `attempts` counts failures, `epoch` claims, `life` revivals.

    `available_at` is when a task that waits for a time may run; document B calls it retry_at.
    `effective_priority` is set only where it was requested. `dag` is the DAG that it was submitted
    in, None for a single task; `dependency_boost` is by how many points its position there makes it
    more urgent.

    Stored bytes may be damaged. `unreadable` is the reason why the definition cannot be read: the
    spec is then a replacement of the same type, without payload, and no attempt can succeed.
    `damaged` names the other parts that cannot be read and are left out. `references` is set for
    the task's handler: the values of its `context_refs`, by reference. `steps` are the names of its
    completed steps, `attached` the artifacts that it has put. A result that is too large for the
    queue is in `result_artifact`, from which `queue.get` reads it; where that is gone or damaged,
    `damaged` names the result and `result_missing` is true. `poison_pill` is true where it is dead
    because it failed on several workers; `failed_by` names them, in the notation of
    task/attempt/blame.py. A dead task is `reviewed` when a reviewer has decided about it and left
    it dead, by its `resolution`.
    """

    id: TaskId
    spec: TaskSpec
    state: State
    unreadable: str | None = None
    damaged: tuple[str, ...] = ()

    life: Count = 0
    attempts: Count = 0
    reclaims: Count = 0
    parks: Count = 0
    epoch: Count = 0
    dag: DagId | None = None
    dependency_boost: float = 0.0
    claim: Claim | None = None
    blocked_by: tuple[str, ...] = ()

    created_at: Instant
    updated_at: Instant | None = None
    available_at: Instant | None = None
    started_at: Instant | None = None
    completed_at: Instant | None = None
    cancelled_at: Instant | None = None

    cancel_reason: str | None = None
    last_error: str | None = None
    failure_reason: str | None = None
    failure_history: tuple[AttemptRecord, ...] = ()
    poison_pill: bool = False
    reviewed: bool = False
    resolution: str | None = None
    failed_by: tuple[str, ...] = Field((), exclude=True)

    progress: Json = None
    checkpoint: Json = None
    logs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    cost_usd: float = 0.0
    tokens_used: Tokens = Tokens()
    attached: tuple[Artifact, ...] = ()
    result: Json = None
    result_artifact: Artifact | None = None
    effective_priority: float | None = None
    references: dict[str, Json] = Field(default_factory=dict, exclude=True)

    @property
    def type(self) -> str:
        """Its type, which is also the name of its handler."""
        return self.spec.type

    @property
    def dag_id(self) -> DagId:
        """The DAG it belongs to; a single task is a DAG of its own."""
        return self.dag or DagId.from_ulid(self.id.ulid)

    @property
    def payload(self) -> Any:
        """The producer's input, as JSON values."""
        return self.spec.payload

    @property
    def retry_at(self) -> Instant | None:
        """When it is retried, if it waits for that."""
        return self.available_at if self.state is State.RETRYING else None

    @property
    def tier(self) -> Tier:
        """The tier of its effective priority, or of its base priority."""
        if self.effective_priority is not None:
            return tier(self.effective_priority)
        return tier(self.spec.priority)

    @property
    def result_missing(self) -> bool:
        """Whether its result's artifact is gone or damaged."""
        return self.result_artifact is not None and "result" in self.damaged

    @property
    def ended(self) -> bool:
        """Whether it has ended: only a user can change its state."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True)
class Note:
    """One report of a task about itself; parts that are not given are not changed. `model` is the
    model that caused the cost.
    """

    progress: JsonValue = None
    checkpoint: JsonValue = None
    line: str = ""
    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    extend_sec: float = 0.0
    model: str = ""


def model_of(given: str | None) -> str:
    """A model's name for a note, "" for None; raises InvalidTask where it is not a label."""
    if given is None:
        return ""
    if not isinstance(given, str) or LABEL.fullmatch(given) is None:
        raise InvalidTask("model", LABEL_RULE)
    return given
