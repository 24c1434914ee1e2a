"""A state machine for tenants only: turns, limits, and priorities between tenants. It reaches more
of these states than the one with all rules.
"""

from __future__ import annotations

from typing import ClassVar

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rqueue.store.library import Library
from rqueue.task.lane import Lane
from rqueue.task.limits import Rules
from tests.machine.comparison import STEP_MS
from tests.machine.operator_moves import ComparedShard
from tests.machine.server_shard import ServerShard
from tests.machine.work_rules import KEYED, KEYS, LANES, RULES, WORKERS
from tests.machine.workers import SimulatedWorker
from tests.reference.records import Draft
from tests.servers import Server

BASES = st.sampled_from([10_000_000, 50_000_000, 90_000_000])
TASKS = st.tuples(st.sampled_from([*LANES, *KEYED, *KEYED]), KEYS, BASES)


class TurnMachine(RuleBasedStateMachine):
    """Tasks of a few tenants and plain ones; workers that claim, complete and release."""

    url: ClassVar[str]
    library: ClassVar[Library]

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.url, protocol=2)
        self.workers = [SimulatedWorker(number) for number in range(3)]
        self.made: dict[str, int] = {}

    def teardown(self) -> None:
        self.client.close()

    @initialize(rules=RULES)
    def begin(self, rules: Rules) -> None:
        self.shard = ComparedShard(
            ServerShard(self.client, self.library), archive=False, rules=rules
        )
        self.submit([(lane, "x", 50_000_000) for lane in LANES])

    @rule(many=st.lists(TASKS, min_size=2, max_size=8))
    def submit(self, many: list[tuple[Lane, str, int]]) -> None:
        drafts = []
        for lane, key, base in many:
            task = f"T{len(self.made):03}"
            self.made[task] = base
            drafts.append(Draft(task, lane, base, b"def", tenant=key if lane.keyed else ""))
        self.shard.submit(drafts)

    @rule(at=WORKERS, n=st.sampled_from([1, 1, 2, 5]))
    def claim(self, at: int, n: int) -> None:
        self.workers[at].claim(self.shard, n, start=True)

    @precondition(lambda self: self.shard.model.leased())
    @rule(verb=st.sampled_from(["complete", "release"]), data=st.data())
    def settle(self, verb: str, data: st.DataObject) -> None:
        held = [(record.id, record.token) for record in self.shard.model.leased()]
        number = data.draw(st.integers(1, len(held)))
        if verb == "complete":
            self.shard.complete([(*lease, b"") for lease in held[:number]])
        else:
            self.shard.release(held[:number])

    @precondition(lambda self: self.shard.model.ready())
    @rule(base=BASES, data=st.data())
    def move(self, base: int, data: st.DataObject) -> None:
        """Changes the priority of a task, perhaps of the first one of its tenant."""
        ready = sorted(record.id for record in self.shard.model.ready())
        task = data.draw(st.sampled_from(ready))
        self.shard.set_priority(task, base=base, was=self.made[task])

    @precondition(lambda self: self.shard.model.leased())
    @rule(slow_ms=st.sampled_from([4_000, 30_000]))
    def park(self, slow_ms: int) -> None:
        record = self.shard.model.leased()[0]
        self.shard.park([(record.id, record.token, 5_000)], slow_ms)

    @precondition(lambda self: self.shard.model.slowed)
    @rule(data=st.data())
    def lift(self, data: st.DataObject) -> None:
        self.shard.lift_slowdown(data.draw(st.sampled_from(sorted(self.shard.model.slowed))))

    @rule(steps=st.sampled_from([1, 2, 5]))
    def time_passes(self, steps: int) -> None:
        self.shard.pass_time(steps * STEP_MS)
        self.shard.promote()


def turn_machine(server: Server, library: Library) -> type[TurnMachine]:
    """The state machine on a server, with a given library."""

    class Here(TurnMachine):
        pass

    Here.url, Here.library = server.plain_url, library
    return Here
