"""Breakers: when a type is given a rest, and the one task that tries whether it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.testing.money import heed_refund

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqueue.testing.model import Model
    from rqueue.testing.records import Lease, Record


@dataclass(slots=True)
class Breaker:
    """The breaker of a type that has failed; `state` is "" while it is closed."""

    failures: int = 0
    last_failure_ms: int = 0
    state: str = ""
    opened_ms: int = 0
    until_ms: int = 0
    probe: Lease | None = None


def type_of(model: Model, record: Record) -> str:
    """The type of a task, by its lane."""
    return next(lane.type for lane, number in model.lanes.items() if number == record.lane)


def trip(model: Model, type: str, rule: str, lease: Lease) -> None:
    """What a failed attempt of a type means for its breaker, by the rule that scripts read."""
    breaker = model.breakers.get(type, Breaker())
    if not rule:
        if breaker.probe == lease:
            breaker.probe = None
            model.wakes[type] = model.now_ms
        return
    threshold, half_open_ms, cooldown_ms = map(int, rule.split())
    breaker.failures += 1
    breaker.last_failure_ms = model.now_ms
    model.breakers[type] = breaker
    if breaker.state == "half-open" and breaker.probe == lease:
        open_for(model, type, cooldown_ms)
    elif not breaker.state and breaker.failures >= threshold:
        open_for(model, type, half_open_ms)


def open_for(model: Model, type: str, for_ms: int) -> None:
    """Hands out nothing of a type for a while."""
    breaker = model.breakers.setdefault(type, Breaker())
    breaker.state, breaker.probe = "open", None
    breaker.opened_ms, breaker.until_ms = model.now_ms, model.now_ms + for_ms
    model.wakes[type] = breaker.until_ms


def close(model: Model, type: str) -> set[int]:
    """Forgets the failures of a type; its lanes, where something may pass now that could not."""
    breaker = model.breakers.pop(type, None)
    model.wakes.pop(type, None)
    return lanes_of(model, type) if breaker is not None and breaker.state else set()


def heed_success(model: Model, completed: Iterable[Record]) -> set[int]:
    """What completions mean for the breakers of their types; the lanes that may be served now."""
    touched: set[int] = set()
    done = [(type_of(model, record), (record.id, record.token)) for record in completed]
    for type in dict.fromkeys(type for type, _ in done):
        breaker = model.breakers.get(type)
        if breaker is None:
            continue
        if breaker.state:
            touched |= lanes_of(model, type)
        if not breaker.state or (type, breaker.probe) in done:
            close(model, type)
    return touched


@dataclass(slots=True)
class Slow:
    """A type that is slowed down: until when, for how long that was, and who has passed since."""

    until_ms: int
    span_ms: int
    step: int = -1
    passed: int = 0


def slow_down(model: Model, type: str, for_ms: int) -> None:
    """Hands out nothing of a type for a while, and then ever more of it."""
    until_ms = model.now_ms + for_ms
    known = model.slowed.get(type)
    if for_ms and (known is None or known.until_ms < until_ms):
        model.slowed[type] = Slow(until_ms, for_ms)
        model.wakes[type] = until_ms


def lanes_of(model: Model, type: str) -> set[int]:
    """The lanes of a type."""
    return {number for lane, number in model.lanes.items() if lane.type == type}


def wake(model: Model) -> set[int]:
    """The lanes of the types whose time has come, and of what accounts can pay again: who waits for
    them is to be answered.
    """
    due = [type for type, at_ms in model.wakes.items() if at_ms <= model.now_ms]
    touched: set[int] = set()
    for type in due:
        del model.wakes[type]
        named = type.removeprefix("$")
        touched |= lanes_of(model, type) if named == type else heed_refund(model, named)
    return touched
