"""A DAG with its tasks: edges, durations and critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.dags.graph import critical_path, leaves, roots
from rqueue.task.dag import Dag, DagSpec, DagStatus
from rqueue.task.state import FINAL, LEASED, State

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.dags.graph import Edges
    from rqueue.task.task import Task

# States in which a task continues without waiting for dependencies or an operator.
CONTINUING = LEASED | {State.READY, State.RETRYING}
# The minimum weight of a task. Of two paths of equal duration the one with more tasks is chosen.
LEAST_SEC = 0.001
# The status of a DAG of one task by the state of the task, by default PENDING.
STATUSES = {
    State.COMPLETED: DagStatus.COMPLETED,
    State.CANCELLED: DagStatus.CANCELLED,
    State.DEAD_LETTERED: DagStatus.FAILED,
    **dict.fromkeys(LEASED, DagStatus.RUNNING),
}


@dataclass(frozen=True, slots=True)
class DagGraph:
    """One DAG and its tasks by id, in the order of submission, which is a topological order.
    `dependencies` are the edges within the DAG, `outside` the edges to tasks of other DAGs.

    A spawned task depends on its parent. If the parent waits for it, that is not an edge, because
    it would be a cycle.
    """

    dag: Dag
    at: datetime
    tasks: Mapping[str, Task]
    dependencies: Edges
    outside: Edges

    @classmethod
    def of(cls, dag: Dag, tasks: Sequence[Task], at: datetime) -> DagGraph:
        """Returns the graph of a DAG and its tasks."""
        known = {str(task.id): task for task in tasks}
        named = {str(task.spec.external_id): str(task.id) for task in tasks}
        dependencies: dict[str, list[str]] = {}
        outside: dict[str, list[str]] = {}
        for task in tasks:
            above = [named.get(dependency, dependency) for dependency in dependencies_of(task)]
            # Only dependencies on earlier tasks are edges: so damaged data cannot form a cycle.
            dependencies[task.id] = [
                dependency for dependency in above if dependency in dependencies
            ]
            outside[task.id] = [dependency for dependency in above if dependency not in known]
        return cls(dag, at, known, dependencies, outside)

    @property
    def roots(self) -> list[str]:
        """The tasks without a dependency in the DAG."""
        return roots(self.dependencies)

    @property
    def leaves(self) -> list[str]:
        """The tasks without a dependent in the DAG."""
        return leaves(self.dependencies)

    @property
    def waited_for(self) -> list[str]:
        """The tasks of other DAGs that its tasks still wait for."""
        waits = (dependency for task in self.tasks.values() for dependency in task.blocked_by)
        return [
            dependency
            for dependency in dict.fromkeys(map(str, waits))
            if dependency not in self.tasks
        ]

    def layers(self) -> dict[str, int]:
        """Returns, for each task, the length of the longest path from a root to it."""
        found: dict[str, int] = {}
        for id, above in self.dependencies.items():
            found[id] = 1 + max((found[dependency] for dependency in above), default=-1)
        return found

    def duration_sec(self, id: str) -> float | None:
        """Returns the duration of a task's last attempt, until now if it is running; None if it has
        no attempt.
        """
        task = self.tasks[id]
        if task.started_at is None:
            return None
        if task.state in FINAL and task.state is not State.CANCELLED:
            ended = task.completed_at or task.updated_at or self.at
        elif task.state in LEASED:
            ended = self.at
        else:
            return None
        return max(0.0, (ended - task.started_at).total_seconds())

    def weights(self) -> dict[str, float]:
        """Returns, for each task, its actual or expected duration, by default the average duration
        of the others. If no duration is known, all weights are equal.
        """
        took = {id: self.duration_sec(id) for id in self.tasks}
        known = [seconds for seconds in took.values() if seconds is not None]
        average = sum(known) / len(known) if known else 1.0
        found: dict[str, float] = {}
        for id, task in self.tasks.items():
            expected = task.spec.expected_duration_sec
            so_far, planned = took[id], average if expected is None else expected
            if task.state is State.CANCELLED:
                found[id] = 0.0
            elif so_far is None:
                found[id] = max(planned, LEAST_SEC)
            else:
                least = planned if task.state in LEASED and expected is not None else 0.0
                found[id] = max(so_far, least, LEAST_SEC)
        return found

    @property
    def timed(self) -> bool:
        """Whether any actual or expected duration is known."""
        expected = (task.spec.expected_duration_sec for task in self.tasks.values())
        known = (self.duration_sec(id) for id in self.tasks)
        return any(one is not None for one in (*expected, *known))

    def critical_path(self) -> list[str]:
        """Returns the path with the longest duration, from a root to a leaf."""
        return critical_path(self.dependencies, self.weights())

    @property
    def at_rest(self) -> bool:
        """Whether the DAG cannot continue without an operator: it has ended, or it has failed and
        its remaining tasks wait for dead ones.
        """
        if self.dag.ended or self.dag.status is not DagStatus.FAILED:
            return self.dag.ended
        return not any(self.moves(task) for task in self.tasks.values())

    def moves(self, task: Task) -> bool:
        """Returns whether a task that has not ended can continue by itself."""
        if task.state is not State.PENDING or task.available_at is not None:
            return task.state in CONTINUING or task.state is State.PENDING
        stuck = (State.PENDING, State.DEAD_LETTERED)
        found = [self.tasks.get(dependency) for dependency in task.blocked_by]
        # A dependency in another DAG may still unblock it; one that has ended is going to.
        return not found or any(one is None or one.state not in stuck for one in found)


def dependencies_of(task: Task) -> list[str]:
    """Returns the dependencies of a task: those it declares, those it waits for, and the parent
    that spawned it.
    """
    spawner = [] if task.spec.parent_id is None else [str(task.spec.parent_id)]
    waits = [] if task.state is not State.PENDING else task.blocked_by
    return list(dict.fromkeys([*spawner, *task.spec.depends_on, *waits]))


def dag_of_one(task: Task) -> Dag:
    """Returns a single task as a DAG of one."""
    status = STATUSES.get(task.state, DagStatus.PENDING)
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
