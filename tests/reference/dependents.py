"""Dependents of ended tasks: unblocked now, or later by the moves `unblock` and `cancel`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from rqueue.task.ids import TaskId
from rqueue.task.state import FINAL, State
from tests.reference.claiming import answer
from tests.reference.records import TIME, Ended, Record

if TYPE_CHECKING:
    from tests.reference.model import Model

Rule = Literal["cascade", "unblock"]


def resolve_dependents(model: Model, task: str) -> set[int]:
    """Resolves the dependents of a completed task. Returns the lanes they enter."""
    return lanes(model.resolve(child, task) for child in model.dependents(task))


def resolve_end_dependents(model: Model, parent: Record) -> set[int]:
    """Resolves dependents with trigger all_done or one_failed. Returns the lanes they enter."""
    model.telling.discard(parent.id)
    return lanes(
        resolve_end_dependent(model, child, parent) for child in model.end_dependents(parent.id)
    )


def resolve_end_dependent(model: Model, child: Record, parent: Record) -> int | None:
    """Resolves one dependent. With trigger one_failed it runs after the first failure, and is
    cancelled if there was none.
    """
    if parent.id not in child.waits:
        # It does not wait yet.
        return model.resolve(child, parent.id)
    failed = child.trigger == "one_failed" and parent.state is State.DEAD_LETTERED
    last = child.trigger == "one_failed" and not child.waits - {TIME, parent.id}
    if failed and child.state is State.CREATED:
        child.fired = True
    elif failed:
        child.waits &= {TIME, parent.id}
    elif last and not child.fired:
        # It keeps its dependency, so that it cannot run before it is cancelled.
        model.cancelling[child.id] = "cascade", "no parent failed"
        return None
    return model.resolve(child, parent.id)


def lanes(entered: Iterable[int | None]) -> set[int]:
    """The lanes that were entered, without None."""
    return {lane for lane in entered if lane is not None}


def unblock(model: Model) -> None:
    """Resolves end dependents of ended tasks. Those of a retried task are resolved when it ends
    again.
    """
    touched: set[int] = set()
    for task in sorted(model.telling):
        record = model.find(task)
        model.telling.discard(task)
        if record is not None and record.state in FINAL:
            touched |= resolve_end_dependents(model, record)
    if touched:
        answer(model, touched)


def resolve_later(model: Model, record: Record) -> None:
    """Leaves the end dependents of a task to the next `unblock`."""
    if "h" in record.flags:
        model.telling.add(record.id)


def cascade_later(model: Model, record: Record, rule: Rule, word: str) -> None:
    """Leaves the dependents of a task that will never complete to the next `cancel`."""
    if "d" in record.flags:
        model.cancelling[f"children {record.id}"] = rule, word
    resolve_later(model, record)


def cascade_to_spawned(model: Model, record: Record) -> None:
    """Leaves the spawned tasks that a cancelled task waits for to the next `cancel`."""
    for child in sorted(record.waits - {TIME}) if record.suspended else ():
        why = f"Parent {TaskId.from_ulid(record.id)} cancelled"
        model.cancelling[child] = "cascade", why
    record.suspended = None


def end_dead(model: Model, record: Record, settled: str) -> Ended:
    """Ends a task as dead. Its dependents wait on, unless its DAG continues without it."""
    line = model.end(record, State.DEAD_LETTERED, settled)
    graph = model.dags.get(record.dag)
    if graph is not None and graph.facts.get("on_failure") == "continue":
        cascade_later(model, record, "cascade", "dead-lettered")
    else:
        resolve_later(model, record)
    return line
