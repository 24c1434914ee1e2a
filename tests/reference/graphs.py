"""DAGs: what a task waits for, which DAG it joins, and what its end means for the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """The counters of a DAG, read off its tasks."""
    states = [model.tasks[task].state for task in graph.members]
    live = sum(state not in FINAL for state in states)
    return Counts(live, states.count(State.DEAD_LETTERED), states.count(State.CANCELLED))


# what a task waits for


def open_parents(
    model: Model, names: Iterable[str], trigger: Trigger, *, others: bool = False
) -> tuple[list[str], str | None]:
    """Of the parents named those that a task waits for, or the first that can never be met. With
    `others` beside them, it may wait for those alone.
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
    """Whether a task waits for a failure that has come already."""
    found = (parent_of(model, name) for name in names if trigger == "one_failed")
    return any(one is not None and one.state is State.DEAD_LETTERED for one in found)


def parent_of(model: Model, name: str) -> Record | None:
    """The task that a name means: our id, or "@" and the hash of a producer's own, which may look
    like ours.
    """
    found = model.seen(name)
    if found is not None:
        return found
    known = model.named(name.removeprefix("@"))
    return None if known is None else model.seen(known.id)


def block(model: Model, record: Record, parents: Iterable[str]) -> None:
    """The task waits for these parents, and they know."""
    letter = "d" if record.trigger == "all_success" else "h"
    for parent in parents:
        record.waits.add(parent)
        model.tasks[parent].flags.add(letter)


# which DAG it belongs to


def adopt(model: Model, record: Record) -> Graph:
    """The DAG of a task, written now where the task was alone."""
    if not record.dag:
        status = "running" if record.in_hand or record.state in FINAL else "pending"
        status = "failed" if record.state is State.DEAD_LETTERED else status
        now_ms, facts = model.now_ms, {"on_failure": "hold"}
        graph = Graph(record.id, status, now_ms, listed_ms=now_ms, facts=facts, members=[record.id])
        graph.spent = record.notes.micro_usd
        model.dags[record.id] = graph
        record.dag = record.id
    return model.dags[record.dag]


def join(model: Model, record: Record, parents: Sequence[str]) -> None:
    """A new task becomes one of its first parent's DAG, if that is open, has room, and lets its
    own tasks add others.
    """
    graph = adopt(model, model.tasks[parents[0]])
    full = len(graph.members) >= model.max_nodes
    shut = graph.finished_ms is not None or graph.closing or graph.facts.get("spawn") == "none"
    if shut or full:
        return
    record.dag = graph.id
    graph.members.append(record.id)
    graph.edges += len(parents)
    changed(model, graph)


def changed(model: Model, graph: Graph) -> None:
    """Its critical path is another: somebody must find it."""
    step = f"rank {graph.id}"
    model.unfinished[step] = model.unfinished.get(step, 0) + 1


def is_shut(model: Model, record: Record) -> bool:
    """Whether nothing of its DAG is handed out: that is paused, or being given up."""
    graph = model.dags.get(record.dag)
    return graph is not None and bool(graph.paused or graph.closing)


def gate(model: Model, record: Record) -> bool:
    """Whether a task may be handed out as far as its DAG is concerned; the first one starts it."""
    graph = model.dags.get(record.dag)
    if graph is None:
        return True
    if is_shut(model, record):
        return False
    graph.status = "running" if graph.status == "pending" else graph.status
    return True


# what becomes of the whole


def tally(model: Model, dag: str, ended: Sequence[Ended] = ()) -> None:
    """Moves a DAG's status after tasks of it have ended or live again."""
    graph = model.dags.get(dag)
    if graph is None or graph.status == "writing":
        return
    counts, closing = counted(model, graph), graph.closing
    states = {state for task, _, state in ended if model.tasks[task].dag == dag}
    if counts.dead:
        fail(model, graph, counts, died=State.DEAD_LETTERED in states)
    elif not counts.open:
        end(model, graph, counts)
        return
    elif graph.status == "failed" and not closing:
        graph.status = "running"
    if State.CANCELLED in states and not closing:
        changed(model, graph)


def fail(model: Model, graph: Graph, counts: Counts, *, died: bool) -> None:
    """A DAG has dead tasks; where one that just died is too many, the rest is given up."""
    if graph.status != "failed":
        graph.status = "failed"
        tell(model, graph)
    threshold = float(graph.facts.get("threshold", "inf"))
    most = threshold * len(graph.members) if threshold < 1 else threshold
    if counts.dead >= most and not graph.escalated:
        graph.escalated = counts.dead
    if died and graph.facts.get("on_failure") == "fail_fast" and not graph.closing:
        graph.closing, graph.why = "failed", "a task of the DAG failed for good"
        graph.request, graph.before = "", counts.cancelled
        model.unfinished[f"cancel {graph.id}"] = 0


def end(model: Model, graph: Graph, counts: Counts) -> None:
    """Every task of a DAG is completed or cancelled."""
    whole = "cancelled" if counts.cancelled == len(graph.members) else "completed"
    graph.status, graph.finished_ms = graph.closing or whole, model.now_ms
    model.unfinished[f"forget {graph.id}"] = 0
    if "follow" in graph.facts and graph.status == "completed":
        model.unfinished[f"follow {graph.id}"] = 0
    tell(model, graph)


def tell(model: Model, graph: Graph) -> None:
    """Mails everyone who waits for the end of a DAG."""
    for box in model.watchers.pop(f"dag_{graph.id}", set()):
        model.mail(box, f"ended dag_{graph.id}")
