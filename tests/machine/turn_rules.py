"""A machine for nothing but keys: whose turn it is, what is at its limit, and who lends what to
whom. It comes to more of that than the one with all rules.
"""

from __future__ import annotations

from typing import ClassVar

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rqueue.store.library import Library
from rqueue.task.lane import Lane
from rqueue.task.limits import Rules
from tests.machine.fleet import Seat
from tests.machine.hands import Hands
from tests.machine.rules import KEYED, KEYS, LANES, RULES, SEATS
from tests.machine.twin import STEP_MS
from tests.machine.wire import Wire
from tests.reference.records import Draft
from tests.servers import Server

BASES = st.sampled_from([10_000_000, 50_000_000, 90_000_000])
TASKS = st.tuples(st.sampled_from([*LANES, *KEYED, *KEYED]), KEYS, BASES)


class TurnMachine(RuleBasedStateMachine):
    """Tasks of a few keys beside plain ones, and workers that claim, complete and give back."""

    url: ClassVar[str]
    scripts: ClassVar[Library]

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.url, protocol=2)
        self.seats = [Seat(number) for number in range(3)]
        self.made: dict[str, int] = {}

    def teardown(self) -> None:
        self.client.close()

    @initialize(rules=RULES)
    def begin(self, rules: Rules) -> None:
        self.twin = Hands(Wire(self.client, self.scripts), archive=False, rules=rules)
        self.submit([(lane, "x", 50_000_000) for lane in LANES])

    @rule(many=st.lists(TASKS, min_size=2, max_size=8))
    def submit(self, many: list[tuple[Lane, str, int]]) -> None:
        drafts = []
        for lane, key, base in many:
            task = f"T{len(self.made):03}"
            self.made[task] = base
            drafts.append(Draft(task, lane, base, b"def", key=key if lane.keyed else ""))
        self.twin.submit(drafts)

    @rule(at=SEATS, n=st.sampled_from([1, 1, 2, 5]))
    def claim(self, at: int, n: int) -> None:
        self.seats[at].claim(self.twin, n, start=True)

    @precondition(lambda self: self.twin.model.in_hand())
    @rule(verb=st.sampled_from(["complete", "release"]), data=st.data())
    def settle(self, verb: str, data: st.DataObject) -> None:
        held = [(record.id, record.token) for record in self.twin.model.in_hand()]
        number = data.draw(st.integers(1, len(held)))
        if verb == "complete":
            self.twin.complete([(*lease, b"") for lease in held[:number]])
        else:
            self.twin.release(held[:number])

    @precondition(lambda self: self.twin.model.ready())
    @rule(base=BASES, data=st.data())
    def move(self, base: int, data: st.DataObject) -> None:
        """Something becomes more urgent, or less: perhaps the first of its key."""
        ready = sorted(record.id for record in self.twin.model.ready())
        task = data.draw(st.sampled_from(ready))
        self.twin.set_priority(task, base=base, was=self.made[task])

    @precondition(lambda self: self.twin.model.in_hand())
    @rule(slow_ms=st.sampled_from([4_000, 30_000]))
    def park(self, slow_ms: int) -> None:
        record = self.twin.model.in_hand()[0]
        self.twin.park([(record.id, record.token, 5_000)], slow_ms)

    @precondition(lambda self: self.twin.model.slowed)
    @rule(data=st.data())
    def lift(self, data: st.DataObject) -> None:
        self.twin.lift_slowdown(data.draw(st.sampled_from(sorted(self.twin.model.slowed))))

    @rule(steps=st.sampled_from([1, 2, 5]))
    def time_passes(self, steps: int) -> None:
        self.twin.pass_time(steps * STEP_MS)
        self.twin.promote()


def turn_machine(server: Server, scripts: Library) -> type[TurnMachine]:
    """The machine on a server, with scripts of the caller's choice."""

    class Here(TurnMachine):
        pass

    Here.url, Here.scripts = server.plain_url, scripts
    return Here
