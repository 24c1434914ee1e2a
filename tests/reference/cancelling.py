"""Giving tasks up: those that are named, and those who wait for what will never complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rqueue.task.ids import TaskId
from rqueue.task.state import FINAL, State
from tests.reference.answering import answer_freed
from tests.reference.money import owe
from tests.reference.telling import Rule, lanes, leave_awaited, leave_children

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Ended, Record

CHILDREN = "children "


class Cascade(NamedTuple):
    """What the end of a task means for those who wait for it, and where what ends is noted."""

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
    """Ends live tasks, and goes on with all that cascades have left, each by its own rule.

    `request` names the call: sent again, it says the same.
    """
    ended: list[Ended] = []
    touched: set[int] = set()
    settled = f"cancel {request}"
    words = [cancel_one(model, t, settled, ended, why=reason, rule=dependents) for t in tasks]
    while model.cancelling:
        name, (rule, why) = next(iter(model.cancelling.items()))
        if name.startswith(CHILDREN):
            cascade = Cascade(rule, why, settled, ended)
            touched |= cancel_children(model, name.removeprefix(CHILDREN), cascade)
        else:
            cancel_unseen(model, name, why)
            cancel_one(model, name, settled, ended, why=why)
    model.send(ended)
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
    """Ends a task if it has not ended, with a rule for those who wait for it and those for whom it
    waits: where the whole DAG is given up, these need no word. The word for the task.
    """
    record = model.seen(task)
    model.cancelling.pop(task, None)
    if record is None:
        return "GONE"
    if record.state in FINAL:
        return "OK" if record.settled == settled else f"STATE:{record.state}"
    if rule == "cascade":
        leave_awaited(model, record)
    ended.append(give_up(model, record, settled, why=why))
    leave_children(model, record, "unblock" if rule == "unblock" else "cascade", "cancelled")
    return "OK"


def cancel_unseen(model: Model, task: str, why: str) -> None:
    """A cascade that comes to a task that nobody sees yet goes on when its DAG is committed."""
    record = model.find(task)
    if record is not None and model.seen(task) is None:
        record.doomed = why


def cancel_children(model: Model, parent: str, cascade: Cascade) -> set[int]:
    """Those who wait for a task that will never complete are given up, or told that it is met;
    the lanes they enter. One that waits for what it spawned goes on in any case; where the task
    lives again, all wait on.
    """
    del model.cancelling[CHILDREN + parent]
    record = model.find(parent)
    if record is not None and record.state not in (State.CANCELLED, State.DEAD_LETTERED):
        return set()
    entered, why = [], f"Parent {TaskId.from_ulid(parent)} {cascade.word}"
    for child in model.dependents(parent):
        if cascade.rule == "unblock" or child.suspended:
            entered.append(model.met(child, parent))
        elif parent not in child.waits:
            child.gathering.discard(parent)
        else:
            cancel_unseen(model, child.id, why)
            cancel_one(model, child.id, cascade.settled, cascade.ended, why=why)
    return lanes(entered)


def give_up(model: Model, record: Record, settled: str = "cancel", *, why: str = "") -> Ended:
    """Ends a live task as CANCELLED; who holds it is fenced."""
    record.waits.clear()
    record.why = why
    if record.in_hand:
        if record.state is not State.CLAIMED:
            owe(record)
        model.mail(f"@{record.owner}", f"fenced {record.id} {record.token}")
    return model.end(record, State.CANCELLED, settled)
