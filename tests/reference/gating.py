"""Gates: how many tasks may pass now, by the breaker of a type and by how far it is slowed down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.reference.limits import bearing, note_wake, open_rooms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.task.lane import Lane
    from tests.reference.model import Model
    from tests.reference.records import Lease, LimitWords, Record

STEPS = 10


def open_places(model: Model, served: dict[int, Lane]) -> dict[str, float]:
    """How many tasks of each type may be handed out now, of those that no pause covers."""
    types = {lane.type for number, lane in served.items() if not is_paused(model, number, lane)}
    return {type: min(tries(model, type), recovered(model, type)) for type in types}


def is_open(model: Model, number: int, lane: Lane, limits: Sequence[LimitWords] = ()) -> bool:
    """Whether a task of the lane may be handed out now."""
    rooms = open_rooms(model, bearing(limits, [lane.type])).values()
    return min([open_places(model, {number: lane}).get(lane.type, 0), *rooms]) >= 1


def is_paused(model: Model, number: int, lane: Lane) -> bool:
    """Whether a pause covers the lane."""
    return not model.paused.isdisjoint({"queue", f"lane={number}", f"type={lane.type}"})


def tries(model: Model, type: str) -> float:
    """What the breaker of a type lets pass."""
    breaker = model.breakers.get(type)
    if breaker is None or not breaker.state:
        return math.inf
    if breaker.until_ms > model.now_ms:
        note_wake(model, type, breaker.until_ms)
        return 0
    return 0 if rides(model, breaker.probe) else 1


def recovered(model: Model, what: str) -> float:
    """What a type, or "@<key>", that was slowed down lets pass: twice as much in each step after
    its rest.
    """
    slow = model.slowed.get(what)
    if slow is None:
        return math.inf
    step = slow.step_at(model.now_ms)
    if step >= STEPS:
        del model.slowed[what]
        return math.inf
    passed = slow.passed if slow.step == step else 0
    if step < 0 or passed >= 2**step:
        note_wake(model, what, slow.opens_ms(model.now_ms))
        return 0
    return float(2**step - passed)


def rides(model: Model, probe: Lease | None) -> bool:
    """Whether a breaker's probe is still under way: it goes with its lease."""
    record = model.find(probe[0]) if probe is not None else None
    return record is not None and probe is not None and record.held_by(probe[1])


def mark_passed(model: Model, type: str, record: Record) -> None:
    """A task was handed out past the gates of its type."""
    breaker, slow = model.breakers.get(type), model.slowed.get(type)
    if breaker is not None and breaker.state:
        breaker.state, breaker.probe = "half-open", (record.id, record.token)
    if slow is not None:
        slow.count(model.now_ms, 1)
