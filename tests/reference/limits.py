"""Limits by configuration: how many of a type, a key or the queue, in a time and at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rqueue.task.limits import QUEUE

if TYPE_CHECKING:
    from rqueue.task.limits import Limit
    from tests.reference.model import Model
    from tests.reference.records import LimitWords

# What has begun is counted in so many parts of the window.
PARTS = 100


def limits_of(limits: Iterable[Limit]) -> list[LimitWords]:
    """Limits of settings as a claim names them, but for those of keys."""
    return [
        (one.what, one.rate or 0, max(1, round(one.per_sec * 1000)), one.at_once or 0)
        for one in limits
        if one.key is None
    ]


def bearing(limits: Iterable[LimitWords], types: Iterable[str]) -> list[LimitWords]:
    """Those of the limits that stand before tasks of some of these types."""
    whats = {QUEUE, *types} if types else set()
    return [limit for limit in limits if limit[0] in whats]


def open_rooms(model: Model, limits: Sequence[LimitWords]) -> dict[str, float]:
    """How many may still pass each limit, by what it stands before. Where nothing may, who waits is
    answered when the window lets go of something, or one of those in hand is.
    """
    rooms = {limit[0]: room(model, limit) for limit in limits}
    for limit in limits:
        what, rate, _, at_once = limit
        opens = window_opens(model, limit) if rate else None
        if opens is not None:
            note_wake(model, what, opens)
        if at_once and rooms[what] < 1:
            model.crowds.types.add(what)
    return rooms


def note_wake(model: Model, what: str, at_ms: int) -> None:
    """Who waits at a gate of this is answered at that time, or when another gate of it opens."""
    model.wakes[what] = min(at_ms, model.wakes.get(what, at_ms))


def room(model: Model, limit: LimitWords) -> float:
    """How many may pass a limit now."""
    what, rate, _, at_once = limit
    left = math.inf
    if rate:
        left = rate - sum(begun(model, limit).values())
    if at_once:
        left = min(left, at_once - in_hand(model, what))
    return left


def begun(model: Model, limit: LimitWords) -> dict[int, int]:
    """How many have begun in each part of a limit's window; what is out of it is forgotten."""
    what = limit[0]
    slots = model.begun.setdefault(what, {})
    for slot in [slot for slot in slots if leaves(limit, slot) <= model.now_ms]:
        del slots[slot]
    if not slots:
        del model.begun[what]
    return slots


def leaves(limit: LimitWords, slot: int) -> float:
    """When a part of the window, named by its beginning, is out of it."""
    per_ms = limit[2]
    return slot + max(1, per_ms / PARTS) + per_ms


def window_opens(model: Model, limit: LimitWords) -> int | None:
    """When a window whose places are used up lets go of the next; None where there is one left."""
    slots = begun(model, limit)
    if sum(slots.values()) < limit[1]:
        return None
    return math.ceil(leaves(limit, min(slots)))


def opens_at(model: Model, limit: LimitWords) -> float | None:
    """When a limit opens that lets nothing pass: never by itself where one in hand must end; None
    where it is open.
    """
    what, rate, _, at_once = limit
    opens = window_opens(model, limit) if rate else None
    if opens is not None:
        return opens
    return math.inf if at_once and in_hand(model, what) >= at_once else None


def in_hand(model: Model, what: str) -> int:
    """How many tasks of a type, or of the queue, are in hand; of a key, where it is named too."""
    lanes = {number: lane.type for lane, number in model.lanes.items()}
    type, at, key = what.partition("@")
    return sum(
        type in (QUEUE, lanes[record.lane]) and (not at or record.key == key)
        for record in model.in_hand()
    )


def pass_one(rooms: dict[str, float], type: str) -> None:
    """One task of a type was picked."""
    for what in (type, QUEUE):
        if what in rooms:
            rooms[what] -= 1


def use_up(model: Model, type: str, limits: Sequence[LimitWords]) -> None:
    """One task of a type begins."""
    for limit in bearing(limits, [type]):
        count_begun(model, limit, 1)


def count_begun(model: Model, limit: LimitWords, number: int) -> None:
    """So many tasks begin by a limit."""
    what, rate, per_ms, _ = limit
    if rate:
        slots = model.begun.setdefault(what, {})
        width = max(1, per_ms / PARTS)
        slot = math.floor(math.floor(model.now_ms / width) * width)
        slots[slot] = slots.get(slot, 0) + number
