"""A DAG as it is read: tasks that belong together, and their state as a whole."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field

from rqueue.task.fields import Checked, Instant, Line, Principal, Usd
from rqueue.task.ids import DagId

OnFailure = Literal["hold", "fail_fast", "continue"]
Trigger = Literal["all_success", "all_done", "one_failed"]
SpawnRule = Literal["own_dag", "same_agent", "none"]
Threshold = Annotated[float, Field(gt=0, le=1_000_000, strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class DagStatus(StrEnum):
    """The status of a DAG."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({DagStatus.COMPLETED, DagStatus.FAILED, DagStatus.CANCELLED})


class DagSpec(Checked):
    """The options of a DAG as a whole.

    `failure_threshold` below 1 is a share of all tasks, from 1 on a number of them: when so many
    are dead, the event dag.escalated is written. `spawn` is what its tasks may add; None is the
    queue's rule.
    """

    title: Line | None = None
    created_by: Principal | None = None
    on_failure: OnFailure = "hold"
    failure_threshold: Threshold | None = None
    budget_usd: Usd | None = None
    spawn: SpawnRule | None = None

    def signed(self, by: str) -> Self:
        """The same with this creator, if it has none; "" changes nothing."""
        if not by or self.created_by is not None:
            return self
        return self.model_copy(update={"created_by": by})


class Dag(Checked):
    """One DAG at one moment. A DAG is failed while a task of it is dead; other tasks may still run.

    `open` counts the tasks that have not ended. `finished_at` is set when none can run any more.
    `closing` is set while the rest of it is being cancelled, until a dead task of it is retried;
    `next` is the DAG that follows, and `next_refused` the reason why that could not be submitted.
    """

    id: DagId
    spec: DagSpec
    status: DagStatus
    total: Count = 0
    open: Count = 0
    dead: Count = 0
    cancelled: Count = 0
    edges: Count = 0
    spent_usd: float = 0.0
    paused: bool = False
    escalated: bool = False
    closing: bool = False
    reason: str | None = None
    next: DagId | None = None
    next_refused: str | None = None
    created_at: Instant
    finished_at: Instant | None = None

    @property
    def completed(self) -> int:
        """The tasks that completed."""
        return self.total - self.open - self.dead - self.cancelled

    @property
    def ended(self) -> bool:
        """Whether nothing more of it can run unless a dead task is retried."""
        return self.finished_at is not None or (self.status is DagStatus.FAILED and not self.open)
