"""G15, read off the server alone: a claim gives what is next, by priority and by turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rqueue.task.lane import Lane, lane_of
from rqueue.task.limits import Rules
from tests.machine.projection import View
from tests.reference.conversation import Claim


@dataclass(slots=True)
class Order:
    """What a claim has given, in its order, and what it has left, as of its time."""

    call: Claim
    given: Sequence[str]
    after: View
    now_ms: int
    rules: Rules

    def check(self) -> None:
        """All that is said of one claim."""
        self.tried()
        self.within_keys()
        self.among_plain()
        self.beside_plain()

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

    def tried(self) -> None:
        """Of a type at rest the one task was given that tries it, if any."""
        rests = {type for type, row in self.after.breakers.items() if "state" in row}
        for task in self.given:
            type = self.lane(task).type
            probe = self.after.breakers.get(type, {}).get("probe", "")
            assert type not in rests or probe.split(" ")[0] == task, f"{task} passed a breaker"

    def within_keys(self) -> None:
        """Of one key in one lane nothing that is left is better than what was given."""
        for task in self.given:
            lane, key = self.after.tasks[task]["lane"], self.after.tasks[task]["key"]
            behind = self.after.keyed.get(lane, {}).get(key, [])
            better = behind and self.place(behind[0]) < self.place(task)
            assert not better, f"G15: {behind[0]} of {key} was better"

    def among_plain(self) -> None:
        """No plain task that is left is better than the worst that was given."""
        plain = [self.place(task) for task in self.given if not self.lane(task).keyed]
        for task in self.left_plain() if plain else ():
            assert self.place(task) > max(plain), f"G15: {task} was better than what was given"

    def left_plain(self) -> Iterator[str]:
        """The best tasks of the plain lanes from which nothing kept this claim."""
        after, limits = self.after, self.rules.limits
        rests = {type for type, row in after.breakers.items() if "state" in row}
        for number in self.call.lanes if "queue" not in after.paused else ():
            lane, left = self.lanes[number], after.order.get(number, [])
            shut = (
                {f"lane={number}", f"type={lane.type}"} & after.paused
                or lane.type in rests | after.slowed.keys()
                # What cannot be paid is passed by.
                or (lane.cost and after.budgets)
                or any(limit.key is None and limit.bears_on(lane.type) for limit in limits)
            )
            if left and not (lane.keyed or lane.exclusive or shut):
                yield left[0]

    def beside_plain(self) -> None:
        """A task with a key goes before a plain one only where some key that may go on has a first
        task that is at least as good, itself where keys have no turns; and a plain one before one
        with a key only where it is as good itself.
        """
        last = list(self.left_plain())
        for at, task in enumerate(self.given):
            rest = self.given[at + 1 :]
            if self.lane(task).keyed:
                lent = self.lent(at) if self.rules.turns.enabled else self.effective(task)
                for one in (*last, *(one for one in rest if not self.lane(one).keyed)):
                    assert lent <= self.effective(one), f"G15: {task} was given before {one}"
            else:
                for one in (one for one in rest if self.lane(one).keyed):
                    better = self.effective(one) < self.effective(task)
                    assert not better, f"G15: {task} was given before {one} of a key"

    def lent(self, at: int) -> float:
        """The best that keys had which could go on when so many were given: of what was given later
        and what is left of their keys, of keys that are not shut, and of what was held back with
        its DAG.
        """
        after, later = self.after, self.given[at:]
        back = (
            task for held in (after.held, after.unpaid) for own in held.values() for task in own
        )
        found = [task for task in (*later, *back) if self.lane(task).keyed]
        went_on = {after.tasks[task]["key"] for task in later}
        for number in self.call.lanes:
            shut = after.shut.get(number, {}).keys() - went_on
            own = after.keyed.get(number, {}).items()
            found += [tasks[0] for key, tasks in own if key not in shut]
        return min(map(self.effective, found))
