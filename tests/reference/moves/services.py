"""The moves of the queue as a whole and of the scheduler's services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference import claiming, dependents, operations, timers

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


def promote(model: Model, _: Call) -> Reply:
    """Promotes due tasks. Returns how many, and when the next one is due."""
    moved = timers.promote(model)
    times = [*model.delayed().values(), next_wake(model)]
    return ["OK", 0, moved, min(filter(None, times), default=0)]


def next_wake(model: Model) -> int:
    """When the next gate opens; 0 if none opens by time."""
    return min((at for at in model.wakes.values() if at > model.now_ms), default=0)


def recall(model: Model, _: Call) -> Reply:
    """Recalls deliveries that were not started in time."""
    return ["OK", 0, timers.recall(model)]


def expire(model: Model, call: Call) -> Reply:
    """Ends waiting tasks whose deadline has passed."""
    return ["OK", 0, timers.expire(model, again_ms=call.number("again_ms"))]


def unblock(model: Model, _: Call) -> Reply:
    """Resolves the end dependents of dead and cancelled tasks."""
    dependents.unblock(model)
    return ["OK", 0]


def pause(model: Model, call: Call) -> Reply:
    """Pauses the queue, a type or a lane."""
    operations.pause(model, call.text("what"))
    return ["OK"]


def resume(model: Model, call: Call) -> Reply:
    """Ends a pause and answers waiting claims."""
    operations.resume(model, call.text("what"))
    return ["OK", 0]


def answer(model: Model, _: Call) -> Reply:
    """Answers all waiting claims."""
    claiming.answer(model, set(model.lanes.values()))
    return ["OK", 0, next_wake(model)]


def archived(model: Model, call: Call) -> Reply:
    """Removes archived entries from the outbox."""
    return ["OK", operations.archived(model, len(call.rows), call.text("dags").split())]


def join(model: Model, call: Call) -> Reply:
    """Joins an archive to the queue."""
    model.archiving = call.number("most")
    return ["OK"]


def leave(model: Model, _: Call) -> Reply:
    """Leaves the archive, unless the outbox has entries."""
    if model.outbox:
        return ["FULL", len(model.outbox)]
    model.archiving = None
    return ["OK"]


def lead(model: Model, call: Call) -> Reply:
    """The caller becomes the leader: there is one process."""
    return ["OK", call.text("owner"), 1, call.number("ttl_ms"), model.now_ms]


def yield_term(_: Model, __: Call) -> Reply:
    """Ends a leadership; there is no other candidate."""
    return ["OK"]
