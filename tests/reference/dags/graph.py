"""DAGs: dependencies of tasks, membership, cycles, and the status that follows from the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rqueue.task.state import FINAL, State
from tests.reference.records import Ended, Graph, Record

if TYPE_CHECKING:
    from rqueue.task.dag import Trigger
    from tests.reference.model import Model


class Counts(NamedTuple):
    """How many tasks of a DAG have not ended, are dead and are cancelled."""

    open: int
    dead: int
    cancelled: int


def counted(model: Model, graph: Graph) -> Counts:
    """The counters of a DAG, from its tasks."""
    states = [model.tasks[task].state for task in graph.members]
    live = sum(state not in FINAL for state in states)
    return Counts(live, states.count(State.DEAD_LETTERED), states.count(State.CANCELLED))


# dependencies


def open_parents(
    model: Model, names: Iterable[str], trigger: Trigger, *, others: bool = False
) -> tuple[list[str], str | None]:
    """Returns the dependencies that a task waits for, or the first that can never be met. With
    `others` it has further dependencies to wait for.
    """
    waits: list[str] = []
    over: str | None = None
    for name in names:
        record = parent_of(model, name)
        if record is None:
            return [], model.names.get(name.removeprefix("@"), name)
        if record.state is State.CANCELLED and trigger == "all_success":
            return [], record.id
        if record.state is State.DEAD_LETTERED and trigger == "one_failed":
            return [], None
        if record.state is State.COMPLETED or (record.state in FINAL and trigger != "all_success"):
            over = record.id
        else:
            waits.append(record.id)
    if trigger == "one_failed" and not waits and not others:
        return [], over
    return waits, None


def is_fired(model: Model, names: Iterable[str], trigger: Trigger) -> bool:
    """Whether a task with trigger one_failed has a dependency that failed already."""
    found = (parent_of(model, name) for name in names if trigger == "one_failed")
    return any(one is not None and one.state is State.DEAD_LETTERED for one in found)


def parent_of(model: Model, name: str) -> Record | None:
    """The task of a name: an id, or "@" and the hash of an external id, which may look
    like an id.
    """
    found = model.visible(name)
    if found is not None:
        return found
    known = model.by_external_id(name.removeprefix("@"))
    return None if known is None else model.visible(known.id)


def add_dependencies(model: Model, record: Record, parents: Iterable[str]) -> None:
    """Adds dependencies to a task."""
    letter = "d" if record.trigger == "all_success" else "h"
    for parent in parents:
        record.waits.add(parent)
        model.tasks[parent].flags.add(letter)


# membership


def ensure_dag(model: Model, record: Record) -> Graph:
    """Returns the DAG of a task; creates one for a task without."""
    if not record.dag:
        status = "running" if record.leased or record.state in FINAL else "pending"
        status = "failed" if record.state is State.DEAD_LETTERED else status
        now_ms, facts = model.now_ms, {"on_failure": "hold"}
        graph = Graph(record.id, status, now_ms, listed_ms=now_ms, facts=facts, members=[record.id])
        graph.spent = record.notes.micro_usd
        model.dags[record.id] = graph
        record.dag = record.id
    return model.dags[record.dag]


def join_dag(model: Model, record: Record, parents: Sequence[str]) -> None:
    """Adds a new task to the DAG of its first dependency, if that is open, not full, and permits
    spawned tasks.
    """
    graph = ensure_dag(model, model.tasks[parents[0]])
    full = len(graph.members) >= model.max_nodes
    shut = graph.finished_ms is not None or graph.closing or graph.facts.get("spawn") == "none"
    if shut or full:
        return
    record.dag = graph.id
    graph.members.append(record.id)
    graph.edges += len(parents)
    request_ranking(model, graph)


def request_ranking(model: Model, graph: Graph) -> None:
    """Marks the critical path of a DAG as out of date."""
    step = f"rank {graph.id}"
    model.unfinished[step] = model.unfinished.get(step, 0) + 1


def is_held_back(model: Model, record: Record) -> bool:
    """Whether the DAG of a task is paused or being cancelled."""
    graph = model.dags.get(record.dag)
    return graph is not None and bool(graph.paused or graph.closing)


def dag_admits(model: Model, record: Record) -> bool:
    """Whether the DAG of a task permits it to be claimed. The first claimed task starts the DAG."""
    graph = model.dags.get(record.dag)
    if graph is None:
        return True
    if is_held_back(model, record):
        return False
    graph.status = "running" if graph.status == "pending" else graph.status
    return True


# status


def update_status(model: Model, dag: str, ended: Sequence[Ended] = ()) -> None:
    """Updates the status of a DAG after tasks have ended or were retried."""
    graph = model.dags.get(dag)
    if graph is None or graph.status == "writing":
        return
    counts, closing = counted(model, graph), graph.closing
    states = {state for task, _, state in ended if model.tasks[task].dag == dag}
    if counts.dead:
        mark_failed(model, graph, counts, died=State.DEAD_LETTERED in states)
    elif not counts.open:
        mark_ended(model, graph, counts)
        return
    elif graph.status == "failed" and not closing:
        graph.status = "running"
    if State.CANCELLED in states and not closing:
        request_ranking(model, graph)


def mark_failed(model: Model, graph: Graph, counts: Counts, *, died: bool) -> None:
    """Marks a DAG with dead tasks as failed; by policy the rest of it is cancelled."""
    if graph.status != "failed":
        graph.status = "failed"
        notify_watchers(model, graph)
    threshold = float(graph.facts.get("threshold", "inf"))
    most = threshold * len(graph.members) if threshold < 1 else threshold
    if counts.dead >= most and not graph.escalated:
        graph.escalated = counts.dead
    if died and graph.facts.get("on_failure") == "fail_fast" and not graph.closing:
        graph.closing, graph.why = "failed", "a task of the DAG failed for good"
        graph.request, graph.before = "", counts.cancelled
        model.unfinished[f"cancel {graph.id}"] = 0


def mark_ended(model: Model, graph: Graph, counts: Counts) -> None:
    """Ends a DAG whose tasks are all completed or cancelled."""
    whole = "cancelled" if counts.cancelled == len(graph.members) else "completed"
    graph.status, graph.finished_ms = graph.closing or whole, model.now_ms
    model.unfinished[f"forget {graph.id}"] = 0
    if "follow" in graph.facts and graph.status == "completed":
        model.unfinished[f"follow {graph.id}"] = 0
    notify_watchers(model, graph)


def notify_watchers(model: Model, graph: Graph) -> None:
    """Writes the end of a DAG to the mailboxes of its watchers."""
    for box in model.watchers.pop(f"dag_{graph.id}", set()):
        model.mail(box, f"ended dag_{graph.id}")


@dataclass(slots=True)
class CycleSearch:
    """A search along dependencies with a limited number of edges; each task is visited once."""

    left: int
    seen: set[str] = field(default_factory=set)

    def reaches(self, model: Model, tasks: Sequence[str], target: str) -> str | None:
        """Returns CYCLE if one of these tasks depends on the target, also indirectly, FAR if the
        limit of edges is reached before this is known, else None. The edges to these tasks count.
        """
        stack = list(tasks)
        awaited = bool(model.dependents(target) or model.end_dependents(target))
        self.left -= len(stack) if awaited else 0
        while stack:
            task = stack.pop()
            if task == target:
                return "CYCLE"
            if self.left < 0:
                return "FAR"
            if not awaited or task in self.seen:
                continue
            self.seen.add(task)
            record = model.tasks.get(task)
            waits = set() if record is None else record.waits or record.about_to_wait()
            stack += sorted(waits)
            self.left -= len(waits)
        return None
