"""Changes of waiting tasks, watches, pauses, and acknowledged outbox entries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import FINAL, State
from tests.reference.claiming import answer

if TYPE_CHECKING:
    from tests.reference.model import Model


def set_priority(model: Model, task: str, *, base: int, was: int) -> str:
    """Changes the priority of a task; `was` is the base of its definition."""
    record = model.visible(task)
    if record is None:
        return "GONE"
    if record.state in (State.COMPLETED, State.CANCELLED):
        return f"STATE {record.state}"
    record.score += base - (was if record.priority is None else record.priority)
    record.priority = base
    return "OK"


def rescore(model: Model, task: str, *, boost: int, was: int) -> str:
    """Adds the urgency that the deadline of a task has gained since the last update."""
    record = model.find(task)
    if record is None:
        return "GONE"
    if record.state in (State.COMPLETED, State.CANCELLED):
        return f"STATE:{record.state}"
    record.score -= boost - (was if record.boost is None else record.boost)
    record.boost = boost
    return "OK"


def reschedule(model: Model, task: str, *, delay_ms: int) -> str:
    """Sets the time of a waiting task."""
    record = model.visible(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return f"STATE {record.state}"
    model.delay(record, model.now_ms + delay_ms)
    return "OK"


def edit(model: Model, task: str, *, was: bytes, definition: bytes) -> str:
    """Replaces the definition of a task that is not claimed."""
    record = model.visible(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return f"STATE {record.state}"
    if record.definition not in (was, definition):
        return "CHANGED"
    record.definition = definition
    return "OK"


def watch(model: Model, box: str, tasks: Sequence[str]) -> list[str]:
    """Watches tasks and DAGs: the mailbox gets a line when they end. Returns their
    present states.
    """
    words = []
    for task in tasks:
        dag = task.removeprefix("dag_")
        words.append(watch_task(model, box, task) if dag == task else watch_dag(model, box, dag))
    return words


def watch_task(model: Model, box: str, task: str) -> str:
    """Watches a task. Returns its state."""
    record = model.visible(task)
    if record is not None and record.state not in FINAL:
        model.watchers.setdefault(task, set()).add(box)
    return "GONE" if record is None else record.state.value


def watch_dag(model: Model, box: str, dag: str) -> str:
    """Watches a DAG until it ends or fails. Returns its status."""
    graph = model.graph(dag)
    if graph is None or graph.status == "writing":
        return "GONE"
    if graph.finished_ms is None and graph.status != "failed":
        model.watchers.setdefault(f"dag_{dag}", set()).add(box)
    return graph.status


def pause(model: Model, what: str) -> None:
    """Pauses the queue, a type or a lane."""
    model.paused.add(what)


def resume(model: Model, what: str) -> None:
    """Ends a pause and answers waiting claims."""
    model.paused.discard(what)
    answer(model, set(model.lanes.values()))


def archived(model: Model, entries: int, over: Collection[str] = ()) -> int:
    """Removes the first outbox entries, which are archived, with the DAGs that ended. Returns the
    number of their tasks.
    """
    gone, model.outbox = model.outbox[:entries], model.outbox[entries:]
    for task, life, state in (line for entry in gone for line in entry):
        record = model.find(task)
        # A task that was retried since has another entry.
        if record is None or (record.life, record.state) != (life, state):
            continue
        if state is State.DEAD_LETTERED:
            continue
        graph = model.dags[record.dag] if record.dag else None
        if graph is not None and graph.finished_ms is None:
            record.archived = True
            continue
        model.expire_later(record)
        if graph is None or record.dag not in over:
            continue
        if f"forget {record.dag}" in model.unfinished:
            graph.archived = True
        else:
            graph.expires_ms = model.now_ms + model.result_ttl_ms
    return sum(len(entry) for entry in gone)
