"""Circuit breakers and slow-downs of types and tenants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.task.limits import QUEUE
from tests.reference.budgets import apply_refund
from tests.reference.gates import STEPS
from tests.reference.turns import reopen_tenant, wake_lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.model import Model
    from tests.reference.records import Lease, Record


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
    """Returns the type of a task, by its lane."""
    return next(lane.type for lane, number in model.lanes.items() if number == record.lane)


def trip(model: Model, type: str, rule: str, lease: Lease) -> None:
    """Counts a failed attempt of a type and opens its breaker where the rule, as moves read it,
    requires it.
    """
    breaker = model.breakers.get(type, Breaker())
    if not rule:
        breaker.probe = None if breaker.probe == lease else breaker.probe
        return
    if rule.startswith("probe "):
        if breaker.probe == lease:
            open_for(model, type, int(rule.removeprefix("probe ")))
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
    """Opens the breaker of a type for a time: none of its tasks can be claimed."""
    breaker = model.breakers.setdefault(type, Breaker())
    breaker.state, breaker.probe = "open", None
    breaker.opened_ms, breaker.until_ms = model.now_ms, model.now_ms + for_ms
    model.wakes[type] = breaker.until_ms


def close(model: Model, type: str) -> set[int]:
    """Forgets the failures of a type. Returns its lanes if its breaker was open."""
    breaker = model.breakers.pop(type, None)
    model.wakes.pop(type, None)
    return lanes_of(model, type) if breaker is not None and breaker.state else set()


def apply_success(model: Model, completed: Sequence[Record]) -> set[int]:
    """Closes breakers and wakes gates after completions. Returns the lanes that may be
    served now.
    """
    touched: set[int] = set()
    for record in completed:
        touched |= reopen_tenant(model, record)
    if completed:
        touched |= {number for what in model.full_gates.types for number in lanes_of(model, what)}
        model.full_gates.types.clear()
    done = [(type_of(model, record), (record.id, record.token)) for record in completed]
    for type in dict.fromkeys(type for type, _ in done):
        breaker = model.breakers.get(type)
        if breaker is None:
            continue
        if not breaker.state or (type, breaker.probe) in done:
            touched |= close(model, type)
    return touched


@dataclass(slots=True)
class Slowdown:
    """A slow-down of a type or tenant: its end, its duration, and how many tasks passed in the
    present step after it.
    """

    until_ms: int
    span_ms: int
    step: int = -1
    passed: int = 0

    @property
    def width_ms(self) -> float:
        """The duration of a step."""
        return max(1, self.span_ms / STEPS)

    def step_at(self, now_ms: int) -> int:
        """The step at that time; below 0 before the end of the slow-down."""
        return math.floor((now_ms - self.until_ms) / self.width_ms)

    def opens_ms(self, now_ms: int) -> int:
        """The end of the slow-down, or of the present step."""
        if now_ms < self.until_ms:
            return self.until_ms
        return math.ceil(self.until_ms + (self.step_at(now_ms) + 1) * self.width_ms)

    def count(self, now_ms: int, number: int) -> None:
        """Counts tasks that passed in the present step."""
        step = self.step_at(now_ms)
        self.passed = self.passed + number if self.step == step else number
        self.step = step


def slow_down(model: Model, what: str, for_ms: int) -> None:
    """Blocks a type, or a tenant as "@<tenant>", for a time; afterwards the number of tasks per
    step doubles.
    """
    until_ms = model.now_ms + for_ms
    known = model.slowed.get(what)
    if for_ms and (known is None or known.until_ms < until_ms):
        model.slowed[what] = Slowdown(until_ms, for_ms)
        model.wakes[what] = until_ms


def lift(model: Model, what: str) -> set[int] | None:
    """Ends a slow-down. Returns the lanes that may be served now; None if there was none."""
    if model.slowed.pop(what, None) is None:
        return None
    if not what.startswith("@"):
        return lanes_of(model, what)
    lane_turns = [number for number, line in model.lane_turns.items() if what[1:] in line.closed]
    for number in lane_turns:
        del model.lane_turns[number].closed[what[1:]]
    return set(lane_turns)


def lanes_of(model: Model, what: str) -> set[int]:
    """The lanes of a type, of the queue, or those with tenants for a tenant."""
    return {
        number
        for lane, number in model.lanes.items()
        if what in (QUEUE, lane.type) or (what.startswith("@") and lane.keyed)
    }


def wake(model: Model) -> set[int]:
    """Removes due wakes. Returns the lanes whose waiting claims must be answered."""
    due = [what for what, at_ms in model.wakes.items() if at_ms <= model.now_ms]
    touched: set[int] = set()
    for what in due:
        del model.wakes[what]
        if what.startswith("$"):
            touched |= apply_refund(model, what[1:])
        elif what.startswith("-"):
            wake_lane(model, int(what))
            touched.add(int(what))
        else:
            touched |= lanes_of(model, what)
    return touched
