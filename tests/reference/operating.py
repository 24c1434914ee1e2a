"""What is done to a task from outside: revive, discard, and changes while it waits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import FINAL, State
from tests.reference.claiming import answer
from tests.reference.graphs import block, changed, open_parents, tally
from tests.reference.records import TIME, Ended, Key, Record
from tests.reference.reviewing import Decided, Said, add_review, decided_first
from tests.reference.telling import leave_children
from tests.reference.walking import Walk

if TYPE_CHECKING:
    from tests.reference.model import Model

# Edges that are followed to find a circle.
STEPS = 2_500
NOTHING: Said = {}


def revive(
    model: Model,
    task: str,
    *,
    life: int,
    definition: bytes,
    delay_ms: int = 0,
    said: Said = NOTHING,
) -> str:
    """Gives a dead task a new life; the state it begins in, or why it cannot."""
    record = model.seen(task)
    if record is None:
        return "GONE"
    refused = why_not(model, record, life)
    if refused is not None:
        return refused
    graph = model.dags.get(record.dag)
    if graph is not None:
        # It goes on, also where it was given up.
        graph.closing = graph.why = ""
    begin_life(model, record, life + 1)
    record.definition = definition or record.definition
    due_ms = int(said.get("not_before", model.now_ms + delay_ms if delay_ms else 0))
    if due_ms:
        record.waits.add(TIME)
        record.due_ms = due_ms
        said = {**said, "not_before": str(due_ms)}
    add_review(model, record.id, life, {"resolution": "retry", **said})
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
    """What a new life means for the task's DAG; of those who wait for it no more are cancelled."""
    graph = model.dags.get(record.dag)
    if graph is not None:
        model.cancelling.pop(f"children {record.id}", None)
        changed(model, graph)
        tally(model, graph.id)


def why_not(model: Model, record: Record, life: int) -> str | None:
    """What a revival is answered that finds no dead task of this life, or one that cannot run."""
    late = decided_first(record, life)
    if late:
        return f"{late} {record.state}"
    if f"cancel {record.dag}" in model.unfinished:
        return f"CLOSING {record.dag}"
    other = model.find(model.holder(record.special.idem) or "")
    if other is not None and other.state is not State.COMPLETED:
        return f"EXISTS {other.id}"
    unmet = never_met(model, record)
    if unmet is not None:
        return unmet
    namesake = named_already(model, record.special.ext, besides=record.id)
    return None if namesake is None else f"EXISTS {namesake}"


def never_met(model: Model, record: Record) -> str | None:
    """Why what a dead task waited for can never be there, if so."""
    waited, lost = open_parents(model, record.parents, record.trigger)
    if lost is not None:
        return f"PARENT {lost}"
    circle = Walk(STEPS).reaches(model, sorted(waited), record.id)
    return None if circle is None else f"{circle} {record.id}"


def named_already(model: Model, ext: str | None, *, besides: str) -> str | None:
    """The task that bears a producer's own id and may still end well, or has."""
    known = model.named(ext)
    if known is None or known.id == besides:
        return None
    return None if known.state in (State.DEAD_LETTERED, State.CANCELLED) else known.id


def begin_life(model: Model, record: Record, life: int) -> None:
    """Attempts start again; key and deadline are taken up again."""
    record.life, record.settled = life, ""
    block(model, record, open_parents(model, record.parents, record.trigger)[0])
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
    """Gives dead tasks up; what waited for them is cancelled next."""
    words: list[str] = []
    ended: list[Ended] = []
    for task, life, said in rows:
        record = model.seen(task)
        late = record and decided_first(record, life)
        if record is None:
            words.append("GONE")
        elif late:
            words.append(f"{late}:{record.state}")
        else:
            record.state, record.settled, record.why = State.CANCELLED, "discard", reason
            whole = {"resolution": "cancel", **said}
            record.reviewed_ms, record.resolution = model.now_ms, whole["resolution"]
            add_review(model, record.id, record.life, whole)
            ended.append((record.id, record.life, State.CANCELLED))
            if not model.archive and not record.dag:
                model.forget_later(record)
            leave_children(model, record, "cascade", "cancelled")
            words.append("OK")
    model.send(ended)
    return words


def set_priority(model: Model, task: str, *, base: int, was: int) -> str:
    """Moves a task in its lane; `was` is the base of its definition."""
    record = model.seen(task)
    if record is None:
        return "GONE"
    if record.state in (State.COMPLETED, State.CANCELLED):
        return f"STATE {record.state}"
    record.score += base - (was if record.priority is None else record.priority)
    record.priority = base
    return "OK"


def rescore(model: Model, task: str, *, boost: int, was: int) -> str:
    """Moves a live task by the urgency that its deadline has gained since it was written last."""
    record = model.find(task)
    if record is None:
        return "GONE"
    if record.state in (State.COMPLETED, State.CANCELLED):
        return f"STATE:{record.state}"
    record.score -= boost - (was if record.boost is None else record.boost)
    record.boost = boost
    return "OK"


def reschedule(model: Model, task: str, *, delay_ms: int) -> str:
    """Lets a waiting task wait until another time."""
    record = model.seen(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return f"STATE {record.state}"
    model.delay(record, model.now_ms + delay_ms)
    return "OK"


def edit(model: Model, task: str, *, was: bytes, definition: bytes) -> str:
    """Changes the definition of a task that nobody has claimed."""
    record = model.seen(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return f"STATE {record.state}"
    if record.definition not in (was, definition):
        return "CHANGED"
    record.definition = definition
    return "OK"


def watch(model: Model, box: str, tasks: Sequence[str]) -> list[str]:
    """Asks to be told by mail when tasks or DAGs end; what they are now."""
    words = []
    for task in tasks:
        dag = task.removeprefix("dag_")
        words.append(watch_task(model, box, task) if dag == task else watch_dag(model, box, dag))
    return words


def watch_task(model: Model, box: str, task: str) -> str:
    """Asks to be told when a task ends; its state."""
    record = model.seen(task)
    if record is not None and record.state not in FINAL:
        model.watchers.setdefault(task, set()).add(box)
    return "GONE" if record is None else record.state.value


def watch_dag(model: Model, box: str, dag: str) -> str:
    """Asks to be told when a DAG ends or fails; its status."""
    graph = model.graph(dag)
    if graph is None or graph.status == "writing":
        return "GONE"
    if graph.finished_ms is None and graph.status != "failed":
        model.watchers.setdefault(f"dag_{dag}", set()).add(box)
    return graph.status


def pause(model: Model, what: str) -> None:
    """Nothing of the queue, type or lane is handed out."""
    model.paused.add(what)


def resume(model: Model, what: str) -> None:
    """Ends a pause and answers who waited."""
    model.paused.discard(what)
    answer(model, set(model.lanes.values()))


def archived(model: Model, entries: int, over: Collection[str] = ()) -> int:
    """The first so many outbox entries are committed, and that these DAGs are over; how many tasks
    were in them.
    """
    gone, model.outbox = model.outbox[:entries], model.outbox[entries:]
    for task, life, state in (line for entry in gone for line in entry):
        record = model.find(task)
        # One that has lived again since has an entry of its own to wait for.
        if record is None or (record.life, record.state) != (life, state):
            continue
        if state is State.DEAD_LETTERED:
            continue
        graph = model.dags[record.dag] if record.dag else None
        if graph is not None and graph.finished_ms is None:
            record.archived = True
            continue
        model.forget_later(record)
        if graph is None or record.dag not in over:
            continue
        if f"forget {record.dag}" in model.unfinished:
            graph.archived = True
        else:
            graph.expires_ms = model.now_ms + model.result_ttl_ms
    return sum(len(entry) for entry in gone)
