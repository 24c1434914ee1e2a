"""A DAG as it is read, with its tasks: who comes after whom, how long each took, and which way is
longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.model.dag import Dag, DagSpec, DagStatus
from rqueue.model.graph import critical_path, leaves, roots
from rqueue.model.state import FINAL, IN_HAND, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.graph import Edges
    from rqueue.model.task import Task

# What time alone, or a worker, brings further.
MOVING = IN_HAND | {State.READY, State.RETRYING}
# So many seconds count for a task of no length: of two ways of the same time the longer one wins.
LEAST_SEC = 0.001
# What a task that is alone would be as a DAG.
ALONE = {
    State.COMPLETED: DagStatus.COMPLETED,
    State.CANCELLED: DagStatus.CANCELLED,
    State.DEAD_LETTERED: DagStatus.FAILED,
    **dict.fromkeys(IN_HAND, DagStatus.RUNNING),
}


@dataclass(frozen=True, slots=True)
class DagGraph:
    """One DAG and its tasks by id, in the order they were written, which is an order of the graph:
    `parents` names those that each comes after, `outside` those of them that are in other DAGs.

    A task that another spawned comes after it. That the other may be waiting for it is no edge,
    or the two would come after each other.
    """

    dag: Dag
    at: datetime
    tasks: Mapping[str, Task]
    parents: Edges
    outside: Edges

    @classmethod
    def of(cls, dag: Dag, tasks: Sequence[Task], at: datetime) -> DagGraph:
        """The graph of tasks as they were read."""
        known = {str(task.id): task for task in tasks}
        named = {str(task.spec.external_id): str(task.id) for task in tasks}
        parents: dict[str, list[str]] = {}
        outside: dict[str, list[str]] = {}
        for task in tasks:
            ways = [named.get(parent, parent) for parent in parents_of(task)]
            # Only those that were written before: so no bytes of anyone make a circle.
            parents[task.id] = [parent for parent in ways if parent in parents]
            outside[task.id] = [parent for parent in ways if parent not in known]
        return cls(dag, at, known, parents, outside)

    @property
    def roots(self) -> list[str]:
        """The tasks that come after no other of the DAG."""
        return roots(self.parents)

    @property
    def leaves(self) -> list[str]:
        """The tasks that no other of the DAG comes after."""
        return leaves(self.parents)

    @property
    def waited_for(self) -> list[str]:
        """The tasks of other DAGs that its own wait for."""
        waits = (parent for task in self.tasks.values() for parent in task.blocked_by)
        return [parent for parent in dict.fromkeys(map(str, waits)) if parent not in self.tasks]

    def layers(self) -> dict[str, int]:
        """For each task how many are before it on the longest way from a root."""
        found: dict[str, int] = {}
        for id, above in self.parents.items():
            found[id] = 1 + max((found[parent] for parent in above), default=-1)
        return found

    def duration_sec(self, id: str) -> float | None:
        """How long a task's last attempt took, or takes until now; None for one without any."""
        task = self.tasks[id]
        if task.started_at is None:
            return None
        if task.state in FINAL and task.state is not State.CANCELLED:
            ended = task.completed_at or task.updated_at or self.at
        elif task.state in IN_HAND:
            ended = self.at
        else:
            return None
        return max(0.0, (ended - task.started_at).total_seconds())

    def weights(self) -> dict[str, float]:
        """For each task how long it took or is expected to take: where nobody has said that, as
        long as the others took on average. Where nothing at all is known all count the same.
        """
        took = {id: self.duration_sec(id) for id in self.tasks}
        known = [seconds for seconds in took.values() if seconds is not None]
        usual = sum(known) / len(known) if known else 1.0
        found: dict[str, float] = {}
        for id, task in self.tasks.items():
            expected = task.spec.expected_duration_sec
            so_far, to_come = took[id], usual if expected is None else expected
            if task.state is State.CANCELLED:
                found[id] = 0.0
            elif so_far is None:
                found[id] = max(to_come, LEAST_SEC)
            else:
                still = to_come if task.state in IN_HAND and expected is not None else 0.0
                found[id] = max(so_far, still, LEAST_SEC)
        return found

    @property
    def timed(self) -> bool:
        """Whether anything is known of how long its tasks take."""
        expected = (task.spec.expected_duration_sec for task in self.tasks.values())
        known = (self.duration_sec(id) for id in self.tasks)
        return any(one is not None for one in (*expected, *known))

    def critical_path(self) -> list[str]:
        """The way through the DAG that takes longest, from a root to a leaf."""
        return critical_path(self.parents, self.weights())

    @property
    def at_rest(self) -> bool:
        """Whether nothing more happens to it unless somebody steps in: it has ended, or has failed
        and what is left waits for what is dead.
        """
        if self.dag.ended or self.dag.status is not DagStatus.FAILED:
            return self.dag.ended
        return not any(self.moves(task) for task in self.tasks.values())

    def moves(self, task: Task) -> bool:
        """Whether a task that has not ended may go on by itself."""
        if task.state is not State.PENDING or task.available_at is not None:
            return task.state in MOVING or task.state is State.PENDING
        stuck = (State.PENDING, State.DEAD_LETTERED)
        found = [self.tasks.get(parent) for parent in task.blocked_by]
        # One in another DAG may still bring it further; one that has ended is about to.
        return not found or any(one is None or one.state not in stuck for one in found)


def parents_of(task: Task) -> list[str]:
    """What a task comes or came after: what it asked for, what it waits for, who spawned it."""
    spawner = [] if task.spec.parent_id is None else [str(task.spec.parent_id)]
    waits = [] if task.state is not State.PENDING else task.blocked_by
    return list(dict.fromkeys([*spawner, *task.spec.depends_on, *waits]))


def alone(task: Task) -> Dag:
    """The DAG of one that a task is which belongs to no other."""
    status = ALONE.get(task.state, DagStatus.PENDING)
    return Dag(
        id=task.dag_id,
        spec=DagSpec(title=task.spec.title, created_by=task.spec.created_by),
        status=status,
        total=1,
        open=int(task.state not in FINAL),
        dead=int(status is DagStatus.FAILED),
        cancelled=int(status is DagStatus.CANCELLED),
        spent_usd=task.cost_usd,
        reason=task.cancel_reason,
        created_at=task.created_at,
        finished_at=task.completed_at or task.cancelled_at,
    )
