"""Moves of the scheduler: recall deliveries, reap leases, promote due tasks, expire deadlines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.breakers import trip, wake
from tests.reference.budgets import allow_late_report, recheck_short
from tests.reference.cancelling import cancel_task
from tests.reference.claiming import answer
from tests.reference.dependents import cascade_later, cascade_to_spawned, end_dead, lanes
from tests.reference.records import TIME, Ended, Record, Verdict
from tests.reference.settling import fail_one, find_leased, return_to_ready

if TYPE_CHECKING:
    from tests.reference.model import Model


def recall(model: Model) -> int:
    """Recalls deliveries that were not started in time; a started one is recalled once."""
    entered: list[int | None] = []
    recalled = 0
    for (task, epoch), due_ms in list(model.deliveries.items()):
        if due_ms > model.now_ms:
            continue
        del model.deliveries[task, epoch]
        record = model.find(task)
        if record is None or record.epoch != epoch:
            continue
        begun_again = record.state is State.RUNNING and record.settled == "recall"
        if record.state in (State.CLAIMED, State.RUNNING) and not begun_again:
            if record.state is State.RUNNING:
                allow_late_report(record)
            entered.append(return_to_ready(model, record, "recall"))
            recalled += 1
    touched = lanes(entered)
    if touched:
        answer(model, touched)
    return recalled


def reap(model: Model, verdicts: Sequence[Verdict], *, idle_ms: int) -> list[str]:
    """Reaps leases that were not renewed for that time; HELD for the others."""
    words: list[str] = []
    ended: list[Ended] = []
    entered: list[int | None] = []
    for verdict in verdicts:
        record = find_leased(model, (verdict.task, verdict.token))
        if record is None or model.now_ms - record.seen_ms < idle_ms:
            words.append("HELD")
        elif record.state is State.CLAIMED:
            entered.append(return_to_ready(model, record, "reap"))
            words.append("READY")
        else:
            allow_late_report(record)
            words.append(fail_one(model, record, verdict, "reap", ended=ended))
            trip(model, verdict.type, verdict.breaker, (verdict.task, verdict.token))
            number = model.lane_number(verdict.exclusive) if verdict.exclusive else None
            record.lane = number or record.lane
    model.record_ended(ended)
    touched = lanes(entered)
    if touched:
        answer(model, touched)
    return words


def promote(model: Model) -> int:
    """Makes due tasks READY. Returns how many."""
    due = [task for task, due_ms in model.delayed().items() if due_ms <= model.now_ms]
    recheck_short(model)
    return promote_all(model, due, wake(model))


def run_now(model: Model, task: str) -> str | int:
    """Promotes one task before its time. Returns 1, or 0 if it was not delayed; GONE or its state
    if it cannot.
    """
    record = model.visible(task)
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
    return model.resolve(record, TIME)


def expire(model: Model, *, again_ms: int) -> int:
    """Ends waiting tasks whose deadline has passed; a leased one is checked again later."""
    ended: list[Ended] = []
    for task, at_ms in sorted(model.deadlines.items(), key=lambda item: (item[1], item[0])):
        record = model.find(task)
        if at_ms > model.now_ms:
            continue
        del model.deadlines[task]
        if record is None:
            continue
        if record.leased or record.state is State.CREATED:
            model.deadlines[task] = model.now_ms + again_ms
        elif record.waiting and record.special.on_deadline == "cancel":
            cascade_to_spawned(model, record)
            ended.append(cancel_task(model, record, why="deadline passed"))
            cascade_later(model, record, "cascade", "cancelled")
        elif record.waiting and record.special.on_deadline == "fail":
            ended.append(expire_one(model, record))
    model.record_ended(ended)
    return len(ended)


def expire_one(model: Model, record: Record) -> Ended:
    """Ends a waiting task as dead. Its dependencies are stored, except for tasks it spawned."""
    if not record.suspended:
        record.parents = sorted(record.waits - {TIME})
    record.suspended = None
    record.waits.clear()
    record.reason, record.why = "timeout", "deadline passed"
    return end_dead(model, record, "expire")
