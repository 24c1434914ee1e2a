"""Dead tasks: retry, discard, escalate, and the reviews of these decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.claiming import answer
from tests.reference.dags.graph import (
    CycleSearch,
    add_dependencies,
    open_parents,
    request_ranking,
    update_status,
)
from tests.reference.dependents import cascade_later
from tests.reference.records import TIME, Ended, Key, Record
from tests.reference.submitting import named_already

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Record


# The fields of a review; a task, the life that was reviewed if one was given, and the review.
Review = Mapping[str, str]
Decided = tuple[str, int | None, Review]

# The fields that are stored, in the order of the server.
NAMES = (
    "by",
    "resolution",
    "cause",
    "note",
    "not_before",
    "diff",
    "type",
    "reason",
    "error",
    "fingerprint",
)


def decided_first(record: Record, life: int | None) -> str | None:
    """The reply to a decision that is too late or about a task that is not dead; None if it
    applies.
    """
    if record.state is State.DEAD_LETTERED and life in (None, record.life):
        return None
    discarded = record.discarded_ms is not None
    if life is not None and (record.life > life or (record.life == life and discarded)):
        return "DECIDED"
    return "STATE"


def add_review(model: Model, task: str, life: int, review: Review) -> None:
    """Stores a review. The model drops none; the server trims them approximately."""
    known = {name: review[name] for name in NAMES if name in review}
    row = {"task": task, "life": str(life), "at": str(model.now_ms), **known}
    seq = sum(entry.startswith(f"{model.now_ms}-") for entry in model.reviews)
    model.reviews[f"{model.now_ms}-{seq}"] = row


def escalate(model: Model, rows: Sequence[Decided]) -> list[str]:
    """Escalates dead tasks, each with the life that was reviewed."""
    words = []
    for task, life, review in rows:
        record = model.visible(task)
        late = record and decided_first(record, life)
        if record is None:
            words.append("GONE")
        elif late:
            words.append(f"{late}:{record.state}")
        else:
            record.reviewed_ms, record.resolution = model.now_ms, "escalate"
            add_review(model, task, record.life, {"resolution": "escalate", **review})
            words.append("OK")
    return words


def reviewed(model: Model, entries: Sequence[str]) -> int:
    """Deletes reviews that are archived. Returns how many there were."""
    return sum(model.reviews.pop(entry, None) is not None for entry in entries)


# Edges that are followed in search of a cycle.
STEPS = 2_500


NOTHING: Review = {}


def revive(
    model: Model,
    task: str,
    *,
    life: int,
    definition: bytes,
    delay_ms: int = 0,
    review: Review = NOTHING,
) -> str:
    """Retries a dead task in a new life. Returns its state, or why it cannot."""
    record = model.visible(task)
    if record is None:
        return "GONE"
    refused = why_not(model, record, life)
    if refused is not None:
        return refused
    graph = model.dags.get(record.dag)
    if graph is not None:
        # A cancelled DAG continues, too.
        graph.closing = graph.why = ""
    begin_life(model, record, life + 1)
    record.definition = definition or record.definition
    due_ms = int(review.get("not_before", model.now_ms + delay_ms if delay_ms else 0))
    if due_ms:
        record.waits.add(TIME)
        record.due_ms = due_ms
        review = {**review, "not_before": str(due_ms)}
    add_review(model, record.id, life, {"resolution": "retry", **review})
    lane = None
    if record.waits:
        record.state = State.PENDING
    else:
        lane = model.make_ready(record)
    revive_dag(model, record)
    begins = record.state
    if lane is not None:
        answer(model, {lane})
    return f"OK {begins}"


def revive_dag(model: Model, record: Record) -> None:
    """Updates the DAG of a retried task; its dependents are not cancelled any more."""
    graph = model.dags.get(record.dag)
    if graph is not None:
        model.cancelling.pop(f"children {record.id}", None)
        request_ranking(model, graph)
        update_status(model, graph.id)


def why_not(model: Model, record: Record, life: int) -> str | None:
    """Why a task cannot be retried: it is not dead in this life, or cannot run."""
    late = decided_first(record, life)
    if late:
        return f"{late} {record.state}"
    if f"cancel {record.dag}" in model.unfinished:
        return f"CLOSING {record.dag}"
    other = model.find(model.key_holder(record.special.idem) or "")
    if other is not None and other.state is not State.COMPLETED:
        return f"EXISTS {other.id}"
    unmet = never_met(model, record)
    if unmet is not None:
        return unmet
    duplicate = named_already(model, record.special.ext, besides=record.id)
    return None if duplicate is None else f"EXISTS {duplicate}"


def never_met(model: Model, record: Record) -> str | None:
    """Why the dependencies of a dead task can never be met; None if they can."""
    waited, lost = open_parents(model, record.parents, record.trigger)
    if lost is not None:
        return f"PARENT {lost}"
    circle = CycleSearch(STEPS).reaches(model, sorted(waited), record.id)
    return None if circle is None else f"{circle} {record.id}"


def begin_life(model: Model, record: Record, life: int) -> None:
    """Resets attempts; restores idempotency key, external id and deadline."""
    record.life, record.settled = life, ""
    add_dependencies(model, record, open_parents(model, record.parents, record.trigger)[0])
    record.parents = []
    record.notes.before, record.notes.late = record.notes.micro_usd, 0
    record.owed = [debt._replace(past=debt.past or life - 1) for debt in record.owed]
    record.attempts = record.reclaims = record.parks = record.due_ms = 0
    record.finished_ms, record.reason, record.why = None, "", None
    record.failed_by = record.poison = record.resolution = ""
    record.reviewed_ms = 0
    special = record.special
    if special.idem is not None:
        model.keys[special.idem] = Key(record.id)
    if special.ext is not None:
        model.names[special.ext] = record.id
    if special.deadline_ms is not None and special.deadline_ms > model.now_ms:
        model.deadlines[record.id] = special.deadline_ms


def discard(model: Model, rows: Sequence[Decided], *, reason: str = "") -> list[str]:
    """Discards dead tasks; their dependents are cancelled by the next `cancel`."""
    words: list[str] = []
    ended: list[Ended] = []
    for task, life, review in rows:
        record = model.visible(task)
        late = record and decided_first(record, life)
        if record is None:
            words.append("GONE")
        elif late:
            words.append(f"{late}:{record.state}")
        else:
            record.state, record.settled, record.why = State.CANCELLED, "discard", reason
            whole = {"resolution": "cancel", **review}
            record.reviewed_ms, record.resolution = model.now_ms, whole["resolution"]
            add_review(model, record.id, record.life, whole)
            ended.append((record.id, record.life, State.CANCELLED))
            if not model.archive and not record.dag:
                model.expire_later(record)
            cascade_later(model, record, "cascade", "cancelled")
            words.append("OK")
    model.record_ended(ended)
    return words
