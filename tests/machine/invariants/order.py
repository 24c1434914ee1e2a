"""G15, read from the server alone: a claim returns the next tasks, by priority and by turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rqueue.task.lane import Lane, lane_of
from rqueue.task.limits import Rules
from tests.machine.views.shard import View
from tests.reference.claiming import Claim


@dataclass(slots=True)
class ClaimOrder:
    """The tasks that a claim leased, in order, and those that it left."""

    call: Claim
    given: Sequence[str]
    after: View
    now_ms: int
    rules: Rules

    def check(self) -> None:
        """Checks one claim."""
        self.check_probes()
        self.check_within_tenants()
        self.check_plain()
        self.check_plain_against_tenants()

    @property
    def lanes(self) -> dict[int, Lane]:
        return {number: lane_of(name) for name, number in self.after.lanes.items()}

    def lane(self, task: str) -> Lane:
        return self.lanes[self.after.tasks[task]["lane"]]

    def effective(self, task: str) -> float:
        rate = self.lane(task).micro_rate
        return float(self.after.tasks[task]["score"]) - rate * (self.now_ms / 60_000)

    def place(self, task: str) -> tuple[float, str]:
        return self.effective(task), task

    def check_probes(self) -> None:
        """Of a type with an open breaker only the probe was leased."""
        rests = {type for type, row in self.after.breakers.items() if "state" in row}
        for task in self.given:
            type = self.lane(task).type
            probe = self.after.breakers.get(type, {}).get("probe", "")
            assert type not in rests or probe.split(" ")[0] == task, f"{task} passed a breaker"

    def check_within_tenants(self) -> None:
        """Of one tenant in one lane no task that is left is better than a leased one."""
        for task in self.given:
            lane, key = self.after.tasks[task]["lane"], self.after.tasks[task]["tenant"]
            behind = self.after.keyed.get(lane, {}).get(key, [])
            better = behind and self.place(behind[0]) < self.place(task)
            assert not better, f"G15: {behind[0]} of {key} was better"

    def check_plain(self) -> None:
        """No plain task that is left is better than the worst leased one."""
        plain = [self.place(task) for task in self.given if not self.lane(task).keyed]
        for task in self.best_plain_left() if plain else ():
            assert self.place(task) > max(plain), f"G15: {task} was better than what was given"

    def best_plain_left(self) -> Iterator[str]:
        """The best tasks of the plain lanes that were open for this claim."""
        after, limits = self.after, self.rules.limits
        rests = {type for type, row in after.breakers.items() if "state" in row}
        for number in self.call.lanes if "queue" not in after.paused else ():
            lane, left = self.lanes[number], after.order.get(number, [])
            shut = (
                {f"lane={number}", f"type={lane.type}"} & after.paused
                or lane.type in rests | after.slowed.keys()
                # Unaffordable tasks are skipped.
                or (lane.cost and after.budgets)
                or any(limit.key is None and limit.applies_to(lane.type) for limit in limits)
            )
            if left and not (lane.keyed or lane.exclusive or shut):
                yield left[0]

    def check_plain_against_tenants(self) -> None:
        """A tenant's task is leased before a plain one only if some tenant that may continue has a
        first task that is at least as good; without turns only if the task itself is. A plain task
        is leased before a tenant's one only if it is at least as good itself.
        """
        last = list(self.best_plain_left())
        for at, task in enumerate(self.given):
            rest = self.given[at + 1 :]
            if self.lane(task).keyed:
                best_of_tenants = (
                    self.best_of_tenants(at) if self.rules.turns.enabled else self.effective(task)
                )
                for one in (*last, *(one for one in rest if not self.lane(one).keyed)):
                    assert best_of_tenants <= self.effective(one), (
                        f"G15: {task} was given before {one}"
                    )
            else:
                for one in (one for one in rest if self.lane(one).keyed):
                    better = self.effective(one) < self.effective(task)
                    assert not better, f"G15: {task} was given before {one} of a key"

    def best_of_tenants(self, at: int) -> float:
        """The best task of tenants that could continue at that point: of later leased tasks and
        what is left of their tenants, of tenants that are open, and of tasks that were held back
        with their DAGs.
        """
        after, later = self.after, self.given[at:]
        back = (
            task for held in (after.held, after.unpaid) for own in held.values() for task in own
        )
        found = [task for task in (*later, *back) if self.lane(task).keyed]
        went_on = {after.tasks[task]["tenant"] for task in later}
        for number in self.call.lanes:
            shut = after.shut.get(number, {}).keys() - went_on
            own = after.keyed.get(number, {}).items()
            found += [tasks[0] for key, tasks in own if key not in shut]
        return min(map(self.effective, found))
