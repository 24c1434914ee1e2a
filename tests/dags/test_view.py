"""The graph of a DAG: edges, durations and the longest path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rqueue import State, Task, TaskId
from rqueue.dags.view import DagGraph
from rqueue.task.dag import Dag, DagSpec, DagStatus
from rqueue.task.ids import new_dag_id, new_task_ids
from rqueue.task.spec import TaskSpec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAG = new_dag_id()
A, B, C, D = new_task_ids(4)


def a_task(id: TaskId, *, state: State = State.READY, **given: Any) -> Task:
    spec = {name: given.pop(name) for name in list(given) if name in TaskSpec.model_fields}
    whole = TaskSpec.parse({"type": "code", **spec})
    return Task(id=id, spec=whole, state=state, created_at=NOW, dag=DAG, **given)


def took(id: TaskId, seconds: float, **given: Any) -> Task:
    """Returns a task that completed after this many seconds."""
    started = NOW - timedelta(seconds=100)
    ended = started + timedelta(seconds=seconds)
    return a_task(id, state=State.COMPLETED, started_at=started, completed_at=ended, **given)


def graph_of(*tasks: Task, status: DagStatus = DagStatus.RUNNING) -> DagGraph:
    dag = Dag(
        id=DAG, spec=DagSpec(), status=status, total=len(tasks), open=len(tasks), created_at=NOW
    )
    return DagGraph.of(dag, tasks, NOW)


def test_edges_are_declared_dependencies_current_dependencies_and_spawners() -> None:
    graph = graph_of(
        a_task(A, external_id="mine"),
        a_task(B, depends_on=["mine", "another's"]),
        a_task(C, state=State.PENDING, blocked_by=(B,)),
        a_task(D, parent_id=C, depends_on=[A]),
    )

    assert graph.dependencies == {A: [], B: [A], C: [B], D: [C, A]}
    assert graph.outside == {A: [], B: ["another's"], C: [], D: []}
    assert (graph.roots, graph.leaves) == ([A], [D])
    assert graph.layers() == {A: 0, B: 1, C: 2, D: 3}


def test_a_parent_that_waits_for_its_child_does_not_come_after_it() -> None:
    graph = graph_of(a_task(A, state=State.PENDING, blocked_by=(B,)), a_task(B, parent_id=A))

    assert graph.dependencies == {A: [], B: [A]}


def test_no_stored_bytes_make_a_cycle() -> None:
    graph = graph_of(a_task(A, depends_on=[B, A]), a_task(B, depends_on=[A]))

    assert graph.dependencies == {A: [], B: [A]}
    assert graph.critical_path() == [A, B]


@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        (a_task(A), None),
        (took(A, 7), 7.0),
        (a_task(A, state=State.RUNNING, started_at=NOW - timedelta(seconds=3)), 3.0),
        (a_task(A, state=State.RUNNING, started_at=NOW + timedelta(seconds=3)), 0.0),
        (a_task(A, state=State.RETRYING, started_at=NOW), None),
        (a_task(A, state=State.CANCELLED, started_at=NOW, cancelled_at=NOW), None),
        (
            a_task(
                A,
                state=State.DEAD_LETTERED,
                started_at=NOW - timedelta(seconds=5),
                updated_at=NOW - timedelta(seconds=1),
            ),
            4.0,
        ),
    ],
    ids=["waits", "completed", "runs", "a clock ahead", "retries", "cancelled", "dead"],
)
def test_a_duration_is_that_of_the_last_attempt(task: Task, seconds: float | None) -> None:
    assert graph_of(task).duration_sec(A) == seconds


def test_without_any_duration_tasks_count_the_same() -> None:
    graph = graph_of(a_task(A), a_task(B), a_task(C, depends_on=[B]))

    assert graph.weights() == {A: 1.0, B: 1.0, C: 1.0}
    assert not graph.timed
    assert graph_of(a_task(A, expected_duration_sec=2.0)).timed
    assert graph.critical_path() == [B, C]


def test_the_longest_path_uses_actual_and_expected_durations() -> None:
    graph = graph_of(
        took(A, 4),
        a_task(B, depends_on=[A]),
        a_task(C, depends_on=[A], expected_duration_sec=60.0),
        a_task(D, depends_on=[B, C]),
    )

    assert graph.weights() == {A: 4.0, B: 4.0, C: 60.0, D: 4.0}
    assert graph.critical_path() == [A, C, D]


def test_a_running_task_counts_its_expected_duration_or_more() -> None:
    since = NOW - timedelta(seconds=10)
    running: dict[str, Any] = {"state": State.RUNNING, "started_at": since}
    graph = graph_of(
        a_task(A, **running),
        a_task(B, **running, expected_duration_sec=60.0),
        a_task(C, **running, expected_duration_sec=5.0),
        a_task(D, state=State.CANCELLED, expected_duration_sec=99.0),
    )

    assert graph.weights() == {A: 10.0, B: 60.0, C: 10.0, D: 0.0}


def test_of_two_paths_without_duration_the_one_with_more_tasks_is_the_longest() -> None:
    graph = graph_of(took(A, 0), took(B, 0), took(C, 0, depends_on=[B]))

    assert graph.critical_path() == [B, C]


@pytest.mark.parametrize(
    ("state", "blocked", "at_rest"),
    [
        (State.READY, (), False),
        (State.RETRYING, (), False),
        (State.RUNNING, (), False),
        (State.PENDING, (), False),
        (State.PENDING, (A,), True),
        (State.PENDING, (C,), False),
        (State.PENDING, (D,), False),
        (State.COMPLETED, (), True),
    ],
)
def test_a_failed_dag_is_at_rest_when_all_open_tasks_wait_for_dead_ones(
    state: State, blocked: tuple[TaskId, ...], *, at_rest: bool
) -> None:
    dead, done = a_task(A, state=State.DEAD_LETTERED), took(C, 1)
    task = a_task(B, state=state, blocked_by=blocked)

    assert graph_of(dead, done, task, status=DagStatus.FAILED).at_rest is at_rest
    assert not graph_of(dead, done, task).at_rest
