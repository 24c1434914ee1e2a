"""What is done to a task from outside: cancel, revive, discard, and changes while it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rqueue.model.ids import TaskId
from rqueue.model.state import FINAL, State
from rqueue.testing.claiming import answer
from rqueue.testing.records import TIME, Ended, Key, Record
from rqueue.testing.settling import tell_dependents

if TYPE_CHECKING:
    from rqueue.testing.model import Model


def cancel(
    model: Model,
    tasks: Sequence[str],
    *,
    request: str,
    reason: str = "",
    dependents: Literal["cascade", "unblock"] = "cascade",
) -> list[str]:
    """Ends live tasks, and what depends on them; without tasks, what is left of a cascade.

    `request` names the call: sent again, it says the same.
    """
    words: list[str] = []
    ended: list[Ended] = []
    touched: set[int] = set()
    asked = [(task, reason) for task in tasks] or left_over(model)
    for task, why in asked:
        record = model.find(task)
        model.cancelling.pop(task, None)
        if record is None:
            words.append("GONE")
        elif record.state in FINAL:
            again = record.settled == f"cancel {request}"
            words.append("OK" if again else f"STATE:{record.state}")
        else:
            words.append("OK")
            ended.append(cancel_one(model, record, f"cancel {request}", why=why))
            # What another cascade left goes on by that one's rule.
            if dependents == "unblock" and tasks:
                touched |= tell_dependents(model, task)
            else:
                asked += [(child.id, orphaned(task)) for child in model.dependents(task)]
    model.send(ended)
    if touched:
        answer(model, touched)
    return words[: len(tasks)]


def left_over(model: Model) -> list[tuple[str, str]]:
    """What cascades have still to cancel, and why."""
    return [(task, orphaned(parent)) for task, parent in model.cancelling.items()]


def orphaned(parent: str) -> str:
    """Why a task is cancelled that waited for one that was."""
    return f"Parent {TaskId.from_ulid(parent)} cancelled"


def cancel_one(model: Model, record: Record, settled: str = "cancel", *, why: str = "") -> Ended:
    """Ends a live task as CANCELLED; who holds it is fenced."""
    record.waits.clear()
    record.why = why
    if record.in_hand:
        model.mail(f"@{record.owner}", f"fenced {record.id} {record.token}")
    return model.end(record, State.CANCELLED, settled)


def orphan(model: Model, record: Record) -> None:
    """What waited for a task that is cancelled will be cancelled by the next `cancel`."""
    for child in model.dependents(record.id):
        model.cancelling[child.id] = record.id


def revive(model: Model, task: str, *, life: int, definition: bytes, delay_ms: int) -> str:
    """Gives a dead task a new life; the state it begins in, or why it cannot."""
    record = model.find(task)
    if record is None:
        return "GONE"
    refused = why_not(model, record, life)
    if refused is not None:
        return refused
    begin_life(model, record, life + 1)
    record.definition = definition or record.definition
    if delay_ms > 0:
        record.waits.add(TIME)
        record.due_ms = model.now_ms + delay_ms
    if record.waits:
        record.state = State.PENDING
        return "OK PENDING"
    model.make_ready(record)
    answer(model, {record.lane})
    return "OK READY"


def why_not(model: Model, record: Record, life: int) -> str | None:
    """What a revival is answered that finds no dead task of this life, or one that cannot run."""
    if record.life == life + 1 and life > 0:
        return f"OK {record.state}"
    if record.state is not State.DEAD_LETTERED or record.life != life:
        return f"STATE {record.state}"
    other = model.find(model.holder(record.special.idem) or "")
    if other is not None and other.state is not State.COMPLETED:
        return f"EXISTS {other.id}"
    lost = next((p for p in record.parents if not can_complete(model, p)), None)
    if lost is not None:
        return f"PARENT {lost}"
    namesake = named_already(model, record.special.ext, besides=record.id)
    return None if namesake is None else f"EXISTS {namesake}"


def named_already(model: Model, ext: str | None, *, besides: str) -> str | None:
    """The task that bears a producer's own id and may still end well, or has."""
    known = model.named(ext)
    if known is None or known.id == besides:
        return None
    return None if known.state in (State.DEAD_LETTERED, State.CANCELLED) else known.id


def can_complete(model: Model, task: str) -> bool:
    """Whether a parent has completed or still may."""
    record = model.find(task)
    return record is not None and record.state is not State.CANCELLED


def begin_life(model: Model, record: Record, life: int) -> None:
    """Attempts start again; key and deadline are taken up again."""
    record.life, record.settled = life, ""
    record.waits = {p for p in record.parents if model.tasks[p].state is not State.COMPLETED}
    record.parents = []
    record.attempts = record.reclaims = record.parks = record.due_ms = 0
    record.finished_ms, record.reason, record.why = None, "", None
    special = record.special
    if special.idem is not None:
        model.keys[special.idem] = Key(record.id)
    if special.ext is not None:
        model.names[special.ext] = record.id
    if special.deadline_ms is not None and special.deadline_ms > model.now_ms:
        model.deadlines[record.id] = special.deadline_ms


def discard(model: Model, tasks: Sequence[str], *, reason: str = "") -> list[str]:
    """Gives dead tasks up; what waited for them is cancelled next."""
    words: list[str] = []
    ended: list[Ended] = []
    for task in tasks:
        record = model.find(task)
        if record is None:
            words.append("GONE")
        elif record.state is State.DEAD_LETTERED:
            record.state, record.settled, record.why = State.CANCELLED, "discard", reason
            if model.archive:
                ended.append((record.id, record.life, State.CANCELLED))
            else:
                model.forget_later(record)
            orphan(model, record)
            words.append("OK")
        else:
            again = record.state is State.CANCELLED and record.settled == "discard"
            words.append("OK" if again else f"STATE:{record.state}")
    model.send(ended)
    return words


def set_priority(model: Model, task: str, *, base: int, was: int) -> str:
    """Moves a task in its lane; `was` is the base of its definition."""
    record = model.find(task)
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
    record = model.find(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return f"STATE {record.state}"
    model.delay(record, model.now_ms + delay_ms)
    return "OK"


def edit(model: Model, task: str, *, was: bytes, definition: bytes) -> str:
    """Changes the definition of a task that nobody has claimed."""
    record = model.find(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return f"STATE {record.state}"
    if record.definition not in (was, definition):
        return "CHANGED"
    record.definition = definition
    return "OK"


def watch(model: Model, box: str, tasks: Sequence[str]) -> list[str]:
    """Asks to be told by mail when tasks end; their states now."""
    words = []
    for task in tasks:
        record = model.find(task)
        if record is not None and record.state not in FINAL:
            model.watchers.setdefault(task, set()).add(box)
        words.append(record.state.value if record is not None else "GONE")
    return words


def pause(model: Model, what: str) -> None:
    """Nothing of the queue, type or lane is handed out."""
    model.paused.add(what)


def resume(model: Model, what: str) -> None:
    """Ends a pause and answers who waited."""
    model.paused.discard(what)
    answer(model, set(model.lanes.values()))


def archived(model: Model, entries: int) -> int:
    """The first so many outbox entries are committed; how many tasks were in them."""
    gone, model.outbox = model.outbox[:entries], model.outbox[entries:]
    for task, life, state in (line for entry in gone for line in entry):
        record = model.tasks[task]
        # One that has lived again since has an entry of its own to wait for.
        if (record.life, record.state) == (life, state) and state is not State.DEAD_LETTERED:
            model.forget_later(record)
    return sum(len(entry) for entry in gone)
