"""What is decided about dead tasks: the resolutions, and the row that is kept of each decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.ids import TaskId

Resolution = Literal["retry", "modify_and_retry", "wait", "escalate", "cancel", "delete"]
RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
# Those that give a task a new life, and those that end it.
REVIVING: frozenset[str] = frozenset({"retry", "modify_and_retry", "wait"})
ENDING: frozenset[str] = frozenset({"cancel", "delete"})
# Why a task died, as most reviewers find; any other label may be given.
CAUSES = ("invalid_task", "agent_bug", "dependency_down", "needs_human", "other")


@dataclass(frozen=True, slots=True)
class Review:
    """One decision about one life of a task, as the audit has it.

    `entry` names it in the stream. `by` is a principal, "" where nobody said who. `diff` is how the
    payload was changed, see policy.difference; `reason`, `error` and `fingerprint` are how it had
    failed, the error cut.
    """

    entry: str
    task: TaskId
    life: int
    at: datetime
    resolution: str
    by: str = ""
    cause: str = ""
    note: str = ""
    not_before: datetime | None = None
    diff: tuple[dict[str, Any], ...] = ()
    type: str = ""
    reason: str = ""
    error: str = ""
    fingerprint: str = ""
