"""Gates of a claim: limits by type, tenant and queue, breakers, slow-downs, pauses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rqueue.task.limits import QUEUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.task.lane import Lane
    from rqueue.task.limits import Limit
    from tests.reference.model import Model
    from tests.reference.records import Lease, LimitWords, Record


# Parts of a rate window.
PARTS = 100


def limits_of(limits: Iterable[Limit]) -> list[LimitWords]:
    """The limits of the settings as a claim passes them, without those of tenants."""
    return [
        (one.scope, one.rate or 0, max(1, round(one.per_sec * 1000)), one.at_once or 0)
        for one in limits
        if one.key is None
    ]


def limits_for(limits: Iterable[LimitWords], types: Iterable[str]) -> list[LimitWords]:
    """The limits that apply to tasks of these types."""
    whats = {QUEUE, *types} if types else set()
    return [limit for limit in limits if limit[0] in whats]


def capacities_of(model: Model, limits: Sequence[LimitWords]) -> dict[str, float]:
    """The remaining capacity of each limit, by its scope. A full limit is recorded, so that waiting
    claims are answered when it opens.
    """
    capacities = {limit[0]: capacity_of(model, limit) for limit in limits}
    for limit in limits:
        what, rate, _, at_once = limit
        opens = window_opens(model, limit) if rate else None
        if opens is not None:
            note_wake(model, what, opens)
        if at_once and capacities[what] < 1:
            model.full_gates.types.add(what)
    return capacities


def note_wake(model: Model, what: str, at_ms: int) -> None:
    """Records when claims that wait at a gate are answered; the earliest time wins."""
    model.wakes[what] = min(at_ms, model.wakes.get(what, at_ms))


def capacity_of(model: Model, limit: LimitWords) -> float:
    """The remaining capacity of a limit."""
    what, rate, _, at_once = limit
    left = math.inf
    if rate:
        left = rate - sum(begun(model, limit).values())
    if at_once:
        left = min(left, at_once - leased(model, what))
    return left


def begun(model: Model, limit: LimitWords) -> dict[int, int]:
    """Starts in each part of a limit's window; expired parts are removed."""
    what = limit[0]
    slots = model.begun.setdefault(what, {})
    for slot in [slot for slot in slots if leaves(limit, slot) <= model.now_ms]:
        del slots[slot]
    if not slots:
        del model.begun[what]
    return slots


def leaves(limit: LimitWords, slot: int) -> float:
    """When a part of the window expires."""
    per_ms = limit[2]
    return slot + max(1, per_ms / PARTS) + per_ms


def window_opens(model: Model, limit: LimitWords) -> int | None:
    """When a used up window has capacity again; None if it has some."""
    slots = begun(model, limit)
    if sum(slots.values()) < limit[1]:
        return None
    return math.ceil(leaves(limit, min(slots)))


def opens_at(model: Model, limit: LimitWords) -> float | None:
    """When a full limit opens: infinity if a lease must end first; None if it is open."""
    what, rate, _, at_once = limit
    opens = window_opens(model, limit) if rate else None
    if opens is not None:
        return opens
    return math.inf if at_once and leased(model, what) >= at_once else None


def leased(model: Model, what: str) -> int:
    """The number of leased tasks of a type, of the queue, or of a tenant."""
    lanes = {number: lane.type for lane, number in model.lanes.items()}
    type, at, key = what.partition("@")
    return sum(
        type in (QUEUE, lanes[record.lane]) and (not at or record.tenant == key)
        for record in model.leased()
    )


def count_selected(capacities: dict[str, float], type: str) -> None:
    """Uses capacity for one selected task of a type."""
    for what in (type, QUEUE):
        if what in capacities:
            capacities[what] -= 1


def count_start(model: Model, type: str, limits: Sequence[LimitWords]) -> None:
    """Counts the start of a task of a type."""
    for limit in limits_for(limits, [type]):
        count_begun(model, limit, 1)


def count_begun(model: Model, limit: LimitWords, number: int) -> None:
    """Counts starts in a limit's window."""
    what, rate, per_ms, _ = limit
    if rate:
        slots = model.begun.setdefault(what, {})
        width = max(1, per_ms / PARTS)
        slot = math.floor(math.floor(model.now_ms / width) * width)
        slots[slot] = slots.get(slot, 0) + number


STEPS = 10


def type_capacities(model: Model, served: dict[int, Lane]) -> dict[str, float]:
    """How many tasks of each type that is not paused may be leased now."""
    types = {lane.type for number, lane in served.items() if not is_paused(model, number, lane)}
    return {
        type: min(breaker_capacity(model, type), slowdown_capacity(model, type)) for type in types
    }


def is_open(model: Model, number: int, lane: Lane, limits: Sequence[LimitWords] = ()) -> bool:
    """Whether a task of the lane may be leased now."""
    capacities = capacities_of(model, limits_for(limits, [lane.type])).values()
    return min([type_capacities(model, {number: lane}).get(lane.type, 0), *capacities]) >= 1


def is_paused(model: Model, number: int, lane: Lane) -> bool:
    """Whether a pause covers the lane."""
    return not model.paused.isdisjoint({"queue", f"lane={number}", f"type={lane.type}"})


def breaker_capacity(model: Model, type: str) -> float:
    """The capacity of a type's breaker."""
    breaker = model.breakers.get(type)
    if breaker is None or not breaker.state:
        return math.inf
    if breaker.until_ms > model.now_ms:
        note_wake(model, type, breaker.until_ms)
        return 0
    return 0 if probe_running(model, breaker.probe) else 1


def slowdown_capacity(model: Model, what: str) -> float:
    """The capacity of a type or "@<tenant>" that was slowed down; it doubles with each step."""
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


def probe_running(model: Model, probe: Lease | None) -> bool:
    """Whether the probe of a breaker still holds its lease."""
    record = model.find(probe[0]) if probe is not None else None
    return record is not None and probe is not None and record.held_by(probe[1])


def mark_passed(model: Model, type: str, record: Record) -> None:
    """Records that a task passed the gates of its type."""
    breaker, slow = model.breakers.get(type), model.slowed.get(type)
    if breaker is not None and breaker.state:
        breaker.state, breaker.probe = "half-open", (record.id, record.token)
    if slow is not None:
        slow.count(model.now_ms, 1)
