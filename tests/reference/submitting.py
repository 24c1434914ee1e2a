"""Submitting independent tasks in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.cancelling import cancel_task
from tests.reference.claiming import answer
from tests.reference.dags.graph import add_dependencies, join_dag, open_parents
from tests.reference.dependents import cascade_later, cascade_to_spawned
from tests.reference.records import TIME, Draft, Key, Record
from tests.reference.selection import MINUTE_MS

if TYPE_CHECKING:
    from tests.reference.model import Model

Refusal = tuple[str, str]


def submit(
    model: Model, drafts: Sequence[Draft], *, refusal: Refusal | None = None
) -> dict[int, Refusal]:
    """Submits new tasks. Returns, by position, those that were not simply accepted: EXISTS, PARENT
    or LANES, and the refusal for all if there is one.

    An existing id was sent before: nothing is created, and it is not in the reply.
    """
    refused: dict[int, Refusal] = {}
    touched: set[int] = set()
    for index, draft in enumerate(drafts):
        if model.find(draft.id) is not None:
            continue
        if refusal is not None:
            refused[index] = refusal
            continue
        made = submit_one(model, draft)
        if not isinstance(made, Record):
            refused[index] = made
            continue
        model.submitted += 1
        if made.state is State.READY:
            touched.add(made.lane)
    if touched:
        answer(model, touched)
    return refused


def submit_one(model: Model, draft: Draft) -> Record | Refusal:
    """The created task, or why there is none."""
    parents, lost = open_parents(model, draft.parents, draft.special.trigger)
    if lost is not None:
        return "PARENT", lost
    due_ms = due_of(model, draft)
    holder = holder_of(model, draft)
    met = holder_refusal(model, draft, holder, parents=parents, due_ms=due_ms)
    if met is not None:
        return met
    number = model.lane_number(draft.lane)
    if number is None:
        return "LANES", ""
    if holder is not None:
        cascade_to_spawned(model, holder)
        line = cancel_task(model, holder, why=f"replaced by {draft.id}")
        cascade_later(model, holder, "cascade", "cancelled")
        model.record_ended([line])
    record = write(model, draft, number, due_ms=due_ms)
    if parents:
        join_dag(model, record, parents)
        add_dependencies(model, record, parents)
        record.state = State.PENDING
    return record


def holder_refusal(
    model: Model, draft: Draft, holder: Record | None, *, parents: list[str], due_ms: int | None
) -> Refusal | None:
    """The reply to a task whose idempotency key or external id is taken; None if it is accepted."""
    if holder is not None and not (draft.if_exists != "keep" and holder.waiting):
        return "EXISTS", holder.id
    if (
        holder is not None
        and draft.if_exists == "debounce"
        and (not parents and same_kind(model, holder, draft))
    ):
        debounce(model, holder, draft, due_ms)
        return "EXISTS", holder.id
    if holder is not None and holder.id in parents:
        return "PARENT", holder.id
    duplicate = named_already(model, draft.special.ext, besides=holder.id if holder else "")
    return None if duplicate is None else ("EXISTS", duplicate)


def due_of(model: Model, draft: Draft) -> int | None:
    """When the task becomes due; None if it is not delayed."""
    due_ms = model.now_ms + draft.delay_ms if draft.at_ms is None else draft.at_ms
    return due_ms if due_ms > model.now_ms else None


def same_kind(model: Model, holder: Record, draft: Draft) -> bool:
    """Whether the draft differs from the task that holds its key in payload and priority only."""
    same = model.lanes.get(draft.lane) == holder.lane and holder.special == draft.special
    return same and holder.life == 1 and holder.tenant == draft.tenant


def debounce(model: Model, holder: Record, draft: Draft, due_ms: int | None) -> None:
    """Gives a waiting task the definition and priority of the draft, and restarts its delay."""
    if draft.id in holder.debounced:
        return
    holder.debounced = [draft.id, *holder.debounced][:16]
    holder.definition, holder.priority, holder.price = draft.definition, None, draft.price
    holder.score = score_of(model, draft)
    if due_ms is not None:
        model.delay(holder, due_ms)


def score_of(model: Model, draft: Draft) -> int:
    """The score of a task that is submitted now."""
    exact = draft.base + draft.lane.micro_rate * model.now_ms / MINUTE_MS
    return int(f"{exact:.0f}")


def holder_of(model: Model, draft: Draft) -> Record | None:
    """The task that holds the draft's idempotency key."""
    return model.tasks.get(model.key_holder(draft.special.idem) or "")


def write(model: Model, draft: Draft, number: int, *, due_ms: int | None) -> Record:
    """The accepted task: READY, or PENDING if it is delayed."""
    score = score_of(model, draft)
    record = Record(draft.id, number, score, draft.definition, draft.special, draft.tenant)
    record.price = draft.price
    record.created_ms = model.now_ms
    model.tasks[draft.id] = record
    if draft.special.ext is not None:
        model.names[draft.special.ext] = draft.id
    if draft.special.idem is not None:
        model.keys[draft.special.idem] = Key(draft.id)
    if draft.special.deadline_ms is not None:
        model.deadlines[draft.id] = draft.special.deadline_ms
    record.due_ms = due_ms or 0
    if due_ms is not None:
        record.waits.add(TIME)
        record.state = State.PENDING
    return record


def named_already(model: Model, ext: str | None, *, besides: str) -> str | None:
    """The task with an external id that has completed or may still complete."""
    known = model.by_external_id(ext)
    if known is None or known.id == besides:
        return None
    return None if known.state in (State.DEAD_LETTERED, State.CANCELLED) else known.id
