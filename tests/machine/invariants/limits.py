"""G21, read from the server alone: no limit of a type, the queue or a tenant is exceeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rqueue.task.lane import Lane, lane_of
from rqueue.task.limits import EACH, Limit
from rqueue.task.state import LEASED
from tests.machine.views.shard import View


@dataclass(slots=True)
class LimitInvariants:
    """Records when each task started, and checks each step."""

    limits: Sequence[Limit] = ()
    begun: list[tuple[int, Lane, str]] = field(default_factory=list)

    def check(self, before: View, after: View, now_ms: int) -> None:
        """No window has more starts than its rate, and no more tasks are leased than permitted."""
        if not self.limits:
            return
        lanes = {number: lane_of(name) for name, number in after.lanes.items()}
        for task, found in after.tasks.items():
            if found["token"] != before.tasks.get(task, {"token": ""})["token"]:
                self.begun.append((now_ms, lanes[found["lane"]], found["tenant"]))
        held = [
            (lanes[found["lane"]], found["tenant"])
            for found in after.tasks.values()
            if found["state"] in LEASED
        ]
        for limit in self.limits:
            for key in self.keys(limit):
                self.within(limit, key, held, now_ms)

    def keys(self, limit: Limit) -> Iterator[str | None]:
        """The tenants of a limit: one, each without a limit of its own, or None for all."""
        if limit.key != EACH:
            yield limit.key
            return
        own = {one.key for one in self.limits if one.type == limit.type}
        yield from {key for *_, key in self.begun} - own - {""}

    def within(self, limit: Limit, key: str | None, held: Sequence[Any], now_ms: int) -> None:
        def counts(lane: Lane, other: str) -> bool:
            return limit.applies_to(lane.type) and key in (None, other)

        if limit.at_once is not None:
            number = sum(counts(*one) for one in held)
            assert number <= limit.at_once, f"G21: {number} at once of {limit} {key}"
        if limit.rate is not None:
            since = now_ms - limit.per_sec * 1000
            number = sum(at > since and counts(lane, other) for at, lane, other in self.begun)
            assert number <= limit.rate, f"G21: {number} in a window of {limit} {key}"
