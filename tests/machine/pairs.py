"""All moves of two clients on the same tasks, from each state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rqueue.task.lane import Lane
from rqueue.task.limits import Limit, Rules
from tests.machine.comparison import STEP_MS
from tests.machine.operator_moves import ComparedShard
from tests.machine.server_shard import ServerShard
from tests.machine.workers import SimulatedWorker, failed, lost
from tests.reference.records import Draft, Lease, Special

LANE, TENANT_LANE = Lane("a", 0.0), Lane("a", 0.0, keyed=True)
# One leased task of a tenant at a time: each end of a lease admits the next one.
RULES = Rules((Limit(key="*", at_once=1),))
KEYED = Special(idem="k")


class Scenario:
    """A task, its dependent and an independent one; two workers, one of which may wait; an old
    token.
    """

    def __init__(self, shard: ComparedShard, lane: Lane) -> None:
        self.shard, self.lane = shard, lane
        self.workers = SimulatedWorker(0), SimulatedWorker(1)
        own = "x" if lane.keyed else ""
        self.draft = Draft("T1", lane, 1_000_000, b"one", KEYED, tenant=own)
        self.child = Draft("T2", lane, 5_000_000, b"two", parents=("T1",), tenant=own)
        self.old: Lease = ("T1", "1:none")

    @property
    def lease(self) -> Lease:
        """The present token of the task, whoever holds it."""
        record = self.shard.model.find("T1")
        return ("T1", record.token if record and record.token else "1:none")

    def move(self, name: str) -> None:
        """Runs a move by name, where it applies."""
        if "T1" in self.shard.model.tasks or name not in NEEDS_TASK:
            MOVES[name](self)

    def fail(self, lease: Lease, *, permanent: bool) -> None:
        record = self.shard.model.tasks["T1"]
        self.shard.fail([failed(record, lease[1], permanent=permanent, after_ms=5_000)])

    def reap(self, lease: Lease) -> None:
        verdict = lost(self.shard.model.tasks["T1"], lease[1])
        self.shard.reap([replace(verdict, exclusive=replace(self.lane, exclusive=True))])

    def later(self) -> Scenario:
        """All delays have passed, and leases are expired."""
        self.shard.pass_time(6 * STEP_MS)
        return self

    def claim(self, worker: int, *, start: bool = False, waits: bool = False) -> None:
        self.workers[worker].claim(self.shard, 1, start=start, waits=waits)


Step = Callable[[Scenario], object]

# The steps into each state; most are reached in several ways.
STATES: dict[str, list[Step]] = {
    "none": [],
    "READY": [lambda s: s.shard.submit([s.draft, s.child])],
    "PENDING": [lambda s: s.shard.submit([replace(s.draft, delay_ms=5_000), s.child])],
    "CLAIMED": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0),
    ],
    "mailed": [
        lambda s: s.shard.submit([replace(s.draft, delay_ms=5_000), s.child]),
        lambda s: s.claim(0, waits=True),
        lambda s: s.shard.run_now("T1", request="r4"),
    ],
    "RUNNING": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
    ],
    "VALIDATING": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.shard.validate([s.lease]),
    ],
    "RETRYING": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.fail(s.lease, permanent=False),
    ],
    "READY again": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.shard.release([s.lease]),
    ],
    "RUNNING again": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.shard.release([s.lease]),
        lambda s: s.claim(1, start=True),
    ],
    "DEAD_LETTERED": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.fail(s.lease, permanent=True),
    ],
    "COMPLETED": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.shard.complete([(*s.lease, b"r")]),
    ],
    "CANCELLED": [
        lambda s: s.shard.submit([s.draft, s.child]),
        lambda s: s.shard.cancel(["T1"], request="r0"),
    ],
}

# Every move, with the present token of the task and with an old one.
MOVES: dict[str, Step] = {
    "submit": lambda s: s.shard.submit([s.draft, s.child]),
    "submit keep": lambda s: s.shard.submit([replace(s.draft, id="T3")]),
    "submit replace": lambda s: s.shard.submit([replace(s.draft, id="T4", if_exists="replace")]),
    "submit debounce": lambda s: s.shard.submit(
        [replace(s.draft, id="T5", if_exists="debounce", delay_ms=5_000)]
    ),
    "submit child": lambda s: s.shard.submit([replace(s.child, id="T6")]),
    "claim": lambda s: s.claim(1),
    "claim started": lambda s: s.claim(0, start=True),
    "claim and wait": lambda s: s.claim(1, waits=True),
    "start": lambda s: s.shard.start([s.lease]),
    "renew": lambda s: s.shard.renew(s.workers[0].consumer, [s.lease]),
    "validate": lambda s: s.shard.validate([s.lease]),
    "complete": lambda s: s.shard.complete([(*s.lease, b"r")]),
    "fail": lambda s: s.fail(s.lease, permanent=False),
    "fail for good": lambda s: s.fail(s.lease, permanent=True),
    "park": lambda s: s.shard.park([(*s.lease, 5_000)]),
    "release": lambda s: s.shard.release([s.lease]),
    "stale start": lambda s: s.shard.start([s.old]),
    "stale renew": lambda s: s.shard.renew(s.workers[0].consumer, [s.old]),
    "stale complete": lambda s: s.shard.complete([(*s.old, b"r")]),
    "stale fail": lambda s: s.fail(s.old, permanent=True),
    "stale release": lambda s: s.shard.release([s.old]),
    "reap": lambda s: s.reap(s.lease),
    "reap silent": lambda s: s.later().reap(s.lease),
    "recall": lambda s: s.shard.recall(),
    "recall late": lambda s: s.later().shard.recall(),
    "promote": lambda s: s.shard.promote(),
    "promote late": lambda s: s.later().shard.promote(),
    "run now": lambda s: s.shard.run_now("T1", request="r4"),
    "expire": lambda s: s.shard.expire(),
    "cancel": lambda s: s.shard.cancel(["T1"], request="r1"),
    "cancel unblock": lambda s: s.shard.cancel(["T1"], request="r2", dependents="unblock"),
    "cancel rest": lambda s: s.shard.cancel([], request="r3"),
    "revive": lambda s: s.shard.revive("T1", life=1, request="r6"),
    "revive later": lambda s: s.shard.revive("T1", life=1, definition=b"new", delay_ms=5_000),
    "discard": lambda s: s.shard.discard(["T1"], life=1, request="r7"),
    "discard by another": lambda s: s.shard.discard(["T1"], life=1),
    "escalate": lambda s: s.shard.escalate("T1", life=1, request="r5"),
    "set_priority": lambda s: s.shard.set_priority("T1", base=9_000_000, was=1_000_000),
    "reschedule": lambda s: s.shard.reschedule("T1", delay_ms=5_000),
    "edit": lambda s: s.shard.edit("T1", was=b"one", definition=b"other"),
    "watch": lambda s: s.shard.watch("box", ["T1"]),
    "pause": lambda s: s.shard.pause("queue"),
    "resume": lambda s: s.shard.resume("queue"),
    "archived": lambda s: s.shard.archived(1),
}
# These need a task with a lease or a final state.
NEEDS_TASK = {name for name in MOVES if name.split()[-1] in ("start", "renew", "complete")} | {
    "validate", "fail", "fail for good", "park", "release", "stale fail", "stale release",
    "reap", "reap silent",
}  # fmt: skip


def scenario_in(state: str, server_shard: ServerShard, lane: Lane = LANE) -> Scenario:
    """A new scenario, with the task in that state. The steps to it are not compared."""
    scenario = Scenario(ComparedShard(server_shard, archive=True, rules=RULES), lane)
    scenario.shard.quiet = True
    for step in STATES[state]:
        step(scenario)
    scenario.old = scenario.lease
    return scenario
