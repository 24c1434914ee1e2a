"""Cancelling tasks, with the tasks that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rqueue.task.ids import TaskId
from rqueue.task.state import FINAL, State
from tests.reference.budgets import allow_late_report
from tests.reference.claiming import answer_freed
from tests.reference.dependents import Rule, cascade_later, cascade_to_spawned, lanes

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Ended, Record

CHILDREN = "children "


class Cascade(NamedTuple):
    """The rule for the dependents of a cancelled or dead task, and the list of what ended."""

    rule: str
    word: str
    settled: str
    ended: list[Ended]


def cancel(
    model: Model,
    tasks: Sequence[str],
    *,
    request: str,
    reason: str = "",
    dependents: Rule = "cascade",
) -> list[str]:
    """Cancels tasks that have not ended, and continues all cascades, each by its own rule.

    `request` names the call: sent again, it returns the same.
    """
    ended: list[Ended] = []
    touched: set[int] = set()
    settled = f"cancel {request}"
    words = [cancel_one(model, t, settled, ended, why=reason, rule=dependents) for t in tasks]
    while model.cancelling:
        name, (rule, why) = next(iter(model.cancelling.items()))
        if name.startswith(CHILDREN):
            cascade = Cascade(rule, why, settled, ended)
            touched |= resolve_cascade(model, name.removeprefix(CHILDREN), cascade)
        else:
            cancel_when_committed(model, name, why)
            cancel_one(model, name, settled, ended, why=why)
    model.record_ended(ended)
    answer_freed(model, touched, freed=bool(ended))
    return words


def cancel_one(
    model: Model,
    task: str,
    settled: str,
    ended: list[Ended],
    *,
    why: str,
    rule: Rule | Literal["whole"] = "cascade",
) -> str:
    """Cancels a task that has not ended, with a rule for its dependents and for spawned tasks that
    it waits for; `whole` cancels neither, because the whole DAG is cancelled. Returns the result
    for the task.
    """
    record = model.visible(task)
    model.cancelling.pop(task, None)
    if record is None:
        return "GONE"
    if record.state in FINAL:
        return "OK" if record.settled == settled else f"STATE:{record.state}"
    if rule == "cascade":
        cascade_to_spawned(model, record)
    ended.append(cancel_task(model, record, settled, why=why))
    cascade_later(model, record, "unblock" if rule == "unblock" else "cascade", "cancelled")
    return "OK"


def cancel_when_committed(model: Model, task: str, why: str) -> None:
    """Cancels a hidden task when its DAG is committed."""
    record = model.find(task)
    if record is not None and model.visible(task) is None:
        record.doomed = why


def resolve_cascade(model: Model, parent: str, cascade: Cascade) -> set[int]:
    """Cancels or unblocks the dependents of a task that will never complete; returns the lanes they
    enter. A suspended task continues in any case. If the task was retried, its dependents wait on.
    """
    del model.cancelling[CHILDREN + parent]
    record = model.find(parent)
    if record is not None and record.state not in (State.CANCELLED, State.DEAD_LETTERED):
        return set()
    entered, why = [], f"Parent {TaskId.from_ulid(parent)} {cascade.word}"
    for child in model.dependents(parent):
        if cascade.rule == "unblock" or child.suspended:
            entered.append(model.resolve(child, parent))
        elif parent not in child.waits:
            child.gathering.discard(parent)
        else:
            cancel_when_committed(model, child.id, why)
            cancel_one(model, child.id, cascade.settled, cascade.ended, why=why)
    return lanes(entered)


def cancel_task(model: Model, record: Record, settled: str = "cancel", *, why: str = "") -> Ended:
    """Ends a task as CANCELLED and notifies the worker that holds it."""
    record.waits.clear()
    record.why = why
    if record.leased:
        if record.state is not State.CLAIMED:
            allow_late_report(record)
        model.mail(f"@{record.owner}", f"fenced {record.id} {record.token}")
    return model.end(record, State.CANCELLED, settled)
