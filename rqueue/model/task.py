"""A task as it is read: what was asked for, and what has become of it."""

from typing import Annotated, Any

from pydantic import Field, JsonValue, SkipValidation

from rqueue.model.artifact import Artifact
from rqueue.model.attempt import AttemptRecord
from rqueue.model.checked import Checked, Instant
from rqueue.model.ids import DagId, TaskId
from rqueue.model.scale import Tier, tier
from rqueue.model.spec import TaskSpec
from rqueue.model.state import FINAL, State

Count = Annotated[int, Field(ge=0)]
Json = Annotated[JsonValue, SkipValidation]


class Claim(Checked):
    """Who holds the task, and until when if it says nothing more."""

    agent_id: str
    claimed_at: Instant
    heartbeat_at: Instant
    lease_expires_at: Instant


class Tokens(Checked):
    """The tokens a language model was given and gave."""

    input: Count = 0
    output: Count = 0


class Task(Checked):
    """One task at one moment. `attempts` counts failures, `epoch` claims, `life` revivals.

    `available_at` is when a task that waits for a time may run; document B calls it retry_at.
    `effective_priority` is there only where the reader asked for the order. `dag` is the DAG that
    it was written into, None for one that is alone; `dependency_boost` is by how many points its
    place there makes it more urgent.

    What is stored may be anyone's bytes. `unreadable` says why the definition cannot be read: the
    spec is then a stand-in of its type, without payload, and no attempt can succeed. `damaged`
    names the other parts that cannot be read and are left out here. `references` is there for who
    has claimed it: what its `context_refs` mean, by reference. `steps` are the names of those that
    its handler has done, `attached` the artifacts that it has put. A result that is too large for
    the queue is in `result_artifact`, from where `queue.get` brings it back; where that is gone or
    damaged, `damaged` names the result and `result_missing` is true. `poison_pill` says
    that it was given up because it fails wherever it runs; `failed_by` is what that is decided by,
    as policy.blame writes it. A dead one is `reviewed` when someone has decided about it and left
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
        """What kind of task it is, which is also the name of its handler."""
        return self.spec.type

    @property
    def dag_id(self) -> DagId:
        """The DAG it belongs to; a task that is alone is one of its own."""
        return self.dag or DagId.from_ulid(self.id.ulid)

    @property
    def payload(self) -> Any:
        """The producer's input, as JSON values."""
        return self.spec.payload

    @property
    def retry_at(self) -> Instant | None:
        """When it is tried again, if it waits for that."""
        return self.available_at if self.state is State.RETRYING else None

    @property
    def tier(self) -> Tier:
        """The tier of its effective priority, or of the one it was given."""
        if self.effective_priority is not None:
            return tier(self.effective_priority)
        return tier(self.spec.priority)

    @property
    def result_missing(self) -> bool:
        """Whether its result was looked for in its artifact and is not there any more."""
        return self.result_artifact is not None and "result" in self.damaged

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in FINAL
