"""What time brings: lost leases and hand-offs come back, retries fall due, deadlines pass."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.breaking import trip, wake
from tests.reference.cancelling import give_up
from tests.reference.claiming import answer
from tests.reference.money import look_at_short, owe
from tests.reference.records import TIME, Ended, Record, Verdict
from tests.reference.settling import fail_one, give_back, held
from tests.reference.telling import bury, lanes, leave_awaited, leave_children

if TYPE_CHECKING:
    from tests.reference.model import Model


def recall(model: Model) -> int:
    """Takes back what was mailed and not started in time; once, where it may have begun."""
    entered: list[int | None] = []
    recalled = 0
    for (task, epoch), due_ms in list(model.handoffs.items()):
        if due_ms > model.now_ms:
            continue
        del model.handoffs[task, epoch]
        record = model.find(task)
        if record is None or record.epoch != epoch:
            continue
        begun_again = record.state is State.RUNNING and record.settled == "recall"
        if record.state in (State.CLAIMED, State.RUNNING) and not begun_again:
            if record.state is State.RUNNING:
                owe(record)
            entered.append(give_back(model, record, "recall"))
            recalled += 1
    touched = lanes(entered)
    if touched:
        answer(model, touched)
    return recalled


def reap(model: Model, verdicts: Sequence[Verdict], *, idle_ms: int) -> list[str]:
    """Takes leases that were silent so long; HELD where one was not."""
    words: list[str] = []
    ended: list[Ended] = []
    entered: list[int | None] = []
    for verdict in verdicts:
        record = held(model, (verdict.task, verdict.token))
        if record is None or model.now_ms - record.seen_ms < idle_ms:
            words.append("HELD")
        elif record.state is State.CLAIMED:
            entered.append(give_back(model, record, "reap"))
            words.append("READY")
        else:
            owe(record)
            words.append(fail_one(model, record, verdict, "reap", ended=ended))
            trip(model, verdict.type, verdict.breaker, (verdict.task, verdict.token))
            number = model.lane_number(verdict.exclusive) if verdict.exclusive else None
            record.lane = number or record.lane
    model.send(ended)
    touched = lanes(entered)
    if touched:
        answer(model, touched)
    return words


def promote(model: Model) -> int:
    """Makes READY what has waited long enough; how many."""
    due = [task for task, due_ms in model.delayed().items() if due_ms <= model.now_ms]
    look_at_short(model)
    return promote_all(model, due, wake(model))


def run_now(model: Model, task: str) -> str | int:
    """`promote` of one task, whatever its time: whether it waited for one, by 1 or 0; GONE or its
    state where it cannot be.
    """
    record = model.seen(task)
    if record is None:
        return "GONE"
    if not record.waiting:
        return record.state.value
    if task not in model.delayed():
        return 0
    promote_all(model, [task])
    return 1


def promote_all(model: Model, tasks: Sequence[str], woken: Collection[int] = ()) -> int:
    records = [model.tasks[task] for task in tasks]
    entered = [promote_one(model, record) for record in records]
    promoted = sum(record.state is State.READY for record in records)
    touched = lanes(entered) | {*woken}
    if touched:
        answer(model, touched)
    return promoted


def promote_one(model: Model, record: Record) -> int | None:
    if record.state is State.RETRYING:
        return model.make_ready(record)
    return model.met(record, TIME)


def expire(model: Model, *, again_ms: int) -> int:
    """Ends waiting tasks whose deadline has passed; one in hand is looked at again later."""
    ended: list[Ended] = []
    for task, at_ms in sorted(model.deadlines.items(), key=lambda item: (item[1], item[0])):
        record = model.find(task)
        if at_ms > model.now_ms:
            continue
        del model.deadlines[task]
        if record is None:
            continue
        if record.in_hand or record.state is State.CREATED:
            model.deadlines[task] = model.now_ms + again_ms
        elif record.waiting and record.special.on_deadline == "cancel":
            leave_awaited(model, record)
            ended.append(give_up(model, record, why="deadline passed"))
            leave_children(model, record, "cascade", "cancelled")
        elif record.waiting and record.special.on_deadline == "fail":
            ended.append(expire_one(model, record))
    model.send(ended)
    return len(ended)


def expire_one(model: Model, record: Record) -> Ended:
    """A waiting task dies; what it waited for is kept, but for what it spawned."""
    if not record.suspended:
        record.parents = sorted(record.waits - {TIME})
    record.suspended = None
    record.waits.clear()
    record.reason, record.why = "timeout", "deadline passed"
    return bury(model, record, "expire")
