"""Limits by configuration: how many of a type, or of the queue, in a time and at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rqueue.model.limit import QUEUE

if TYPE_CHECKING:
    from rqueue.model.limit import Limit
    from rqueue.testing.model import Model
    from rqueue.testing.records import LimitWords

# What has begun is counted in so many parts of the window.
PARTS = 100


def limits_of(limits: Iterable[Limit]) -> list[LimitWords]:
    """Limits of settings as a claim names them."""
    return [
        (one.what, one.rate or 0, max(1, round(one.per_sec * 1000)), one.at_once or 0)
        for one in limits
    ]


def open_rooms(model: Model, limits: Sequence[LimitWords]) -> dict[str, float]:
    """How many may still pass each limit, by what it stands before."""
    return {limit[0]: room(model, limit) for limit in limits}


def room(model: Model, limit: LimitWords) -> float:
    """How many may pass a limit now."""
    what, rate, per_ms, at_once = limit
    left = math.inf
    if rate:
        width = max(1, per_ms / PARTS)
        slots = model.begun.setdefault(what, {})
        for slot in [slot for slot in slots if (slot + 1) * width + per_ms <= model.now_ms]:
            del slots[slot]
        left = rate - sum(slots.values())
    if at_once:
        left = min(left, at_once - in_hand(model, what))
    return left


def in_hand(model: Model, what: str) -> int:
    """How many tasks of a type, or of the queue, are in hand."""
    lanes = {number: lane.type for lane, number in model.lanes.items()}
    return sum(what in (QUEUE, lanes[record.lane]) for record in model.in_hand())


def pass_one(rooms: dict[str, float], type: str) -> None:
    """One task of a type was picked."""
    for what in (type, QUEUE):
        if what in rooms:
            rooms[what] -= 1


def use_up(model: Model, type: str, limits: Sequence[LimitWords]) -> None:
    """One task of a type begins."""
    for what, rate, per_ms, _ in limits:
        if rate and what in (type, QUEUE):
            slots = model.begun.setdefault(what, {})
            slot = math.floor(model.now_ms / max(1, per_ms / PARTS))
            slots[slot] = slots.get(slot, 0) + 1
