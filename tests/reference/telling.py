"""Telling those who wait for a task that it has ended, and what is left to be told later."""

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


def tell_dependents(model: Model, task: str) -> set[int]:
    """A parent is met; the lanes that its dependents enter."""
    return lanes(model.met(child, task) for child in model.dependents(task))


def tell_heirs(model: Model, parent: Record) -> set[int]:
    """A parent has ended, one way or another; the lanes that its heirs enter."""
    model.telling.discard(parent.id)
    return lanes(tell_heir(model, child, parent) for child in model.heirs(parent.id))


def tell_heir(model: Model, child: Record, parent: Record) -> int | None:
    """One that waits for a failure runs at the first, and is given up where none has come."""
    if parent.id not in child.waits:
        # It is only about to wait.
        return model.met(child, parent.id)
    failed = child.trigger == "one_failed" and parent.state is State.DEAD_LETTERED
    last = child.trigger == "one_failed" and not child.waits - {TIME, parent.id}
    if failed and child.state is State.CREATED:
        child.fired = True
    elif failed:
        child.waits &= {TIME, parent.id}
    elif last and not child.fired:
        # It waits on, so that it cannot run before it is given up.
        model.cancelling[child.id] = "cascade", "no parent failed"
        return None
    return model.met(child, parent.id)


def lanes(entered: Iterable[int | None]) -> set[int]:
    """The lanes that were entered, where moves of tasks may have come to none."""
    return {lane for lane in entered if lane is not None}


def unblock(model: Model) -> None:
    """Tells the heirs of tasks that ended; one that lives again tells them when it ends again."""
    touched: set[int] = set()
    for task in sorted(model.telling):
        record = model.find(task)
        model.telling.discard(task)
        if record is not None and record.state in FINAL:
            touched |= tell_heirs(model, record)
    if touched:
        answer(model, touched)


def tell_later(model: Model, record: Record) -> None:
    """Those who wait for a task's end, whatever it is, are told by the next `unblock`."""
    if "h" in record.flags:
        model.telling.add(record.id)


def leave_children(model: Model, record: Record, rule: Rule, word: str) -> None:
    """What it means for those who wait for a task that it will never complete is the business of
    the next `cancel`.
    """
    if "d" in record.flags:
        model.cancelling[f"children {record.id}"] = rule, word
    tell_later(model, record)


def leave_awaited(model: Model, record: Record) -> None:
    """A task is given up: what it has spawned and waits for is, too, by the next `cancel`."""
    for child in sorted(record.waits - {TIME}) if record.suspended else ():
        why = f"Parent {TaskId.from_ulid(record.id)} cancelled"
        model.cancelling[child] = "cascade", why
    record.suspended = None


def bury(model: Model, record: Record, settled: str) -> Ended:
    """Ends a task as dead. Who waits for it waits on, unless its DAG is to continue without it."""
    line = model.end(record, State.DEAD_LETTERED, settled)
    graph = model.dags.get(record.dag)
    if graph is not None and graph.facts.get("on_failure") == "continue":
        leave_children(model, record, "cascade", "dead-lettered")
    else:
        tell_later(model, record)
    return line
