"""The scripts of the queue as a whole and of what time brings, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference import claiming, operating, passing, telling

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


def promote(model: Model, _: Asked) -> Reply:
    """What has waited long enough, and when the next has."""
    moved = passing.promote(model)
    times = [*model.delayed().values(), next_wake(model)]
    return ["OK", 0, moved, min(filter(None, times), default=0)]


def next_wake(model: Model) -> int:
    """When the next gate opens, after now; 0 where none does by itself."""
    return min((at for at in model.wakes.values() if at > model.now_ms), default=0)


def recall(model: Model, _: Asked) -> Reply:
    """What was mailed and not started in time."""
    return ["OK", 0, passing.recall(model)]


def expire(model: Model, asked: Asked) -> Reply:
    """Waiting tasks whose deadline has passed."""
    return ["OK", 0, passing.expire(model, again_ms=asked.number("again_ms"))]


def unblock(model: Model, _: Asked) -> Reply:
    """Tells who waits for tasks that died or were cancelled; all others were told at once."""
    telling.unblock(model)
    return ["OK", 0]


def pause(model: Model, asked: Asked) -> Reply:
    """Hands out nothing of what is named."""
    operating.pause(model, asked.text("what"))
    return ["OK"]


def resume(model: Model, asked: Asked) -> Reply:
    """Ends a pause; who waited is answered."""
    operating.resume(model, asked.text("what"))
    return ["OK", 0]


def answer(model: Model, _: Asked) -> Reply:
    """Answers whoever waits, all of them."""
    claiming.answer(model, set(model.lanes.values()))
    return ["OK", 0, next_wake(model)]


def archived(model: Model, asked: Asked) -> Reply:
    """The first entries of the outbox are committed."""
    return ["OK", operating.archived(model, len(asked.rows), asked.text("dags").split())]


def join(model: Model, asked: Asked) -> Reply:
    """The queue has an archive from now on."""
    model.archiving = asked.number("most")
    return ["OK"]


def leave(model: Model, _: Asked) -> Reply:
    """It has none any more, unless something waits for it."""
    if model.outbox:
        return ["FULL", len(model.outbox)]
    model.archiving = None
    return ["OK"]


def lead(model: Model, asked: Asked) -> Reply:
    """Whoever asks leads: there is one process."""
    return ["OK", asked.text("owner"), 1, asked.number("ttl_ms"), model.now_ms]


def yield_lead(_: Model, __: Asked) -> Reply:
    """Nobody else wants to lead."""
    return ["OK"]
