"""All moves of two clients on one DAG, from each of its states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rqueue.task.dag import Trigger
from rqueue.task.lane import Lane
from tests.machine.comparison import MANY, STEP_MS
from tests.machine.dags.dag_moves import ComparedDags, DagPlan
from tests.machine.server_shard import ServerShard
from tests.machine.workers import SimulatedWorker, failed
from tests.reference.dags.spawning import Spawn
from tests.reference.records import Draft, Lease, Special

LANE = Lane("a", 0.0)
ROOT, LEFT, ALARM, LAST, ELSEWHERE, DAG = (f"{number:026}" for number in range(1, 7))
# The first task that the root spawns, and the one that this child spawns.
CHILD, AFTER = f"{11:026}", f"{90:026}"


def draft_of(task: str, *inside: str, trigger: Trigger = "all_success") -> Draft:
    base, special = 50_000_000 + int(task), Special(trigger=trigger)
    return Draft(task, LANE, base, task[-2:].encode(), special, inside=inside)


class DagScenario:
    """A root, a dependent, one with trigger one_failed, one with trigger all_done on both; and a
    task outside of the DAG that depends on the root.
    """

    def __init__(self, shard: ComparedDags, policy: str) -> None:
        self.shard = shard
        self.workers = SimulatedWorker(0), SimulatedWorker(1)
        self.made = 10
        drafts = [
            draft_of(ROOT),
            draft_of(LEFT, ROOT),
            draft_of(ALARM, ROOT, trigger="one_failed"),
            draft_of(LAST, LEFT, ALARM, trigger="all_done"),
        ]
        self.plan = DagPlan(DAG, {"on_failure": policy}, drafts)
        self.old: Lease = (ROOT, "1:none")

    @property
    def lease(self) -> Lease:
        """The present token of the root, whoever holds it."""
        record = self.shard.model.find(ROOT)
        return (ROOT, record.token if record and record.token else "1:none")

    def move(self, name: str) -> None:
        """Runs a move by name."""
        MOVES[name](self)

    def claim(self, worker: int, *, n: int = 1, waits: bool = False) -> None:
        self.workers[worker].claim(self.shard, n, start=True, waits=waits)

    def fail(self) -> None:
        """The root fails for good."""
        record = self.shard.model.find(ROOT)
        if record is not None:
            self.shard.fail([failed(record, record.token, permanent=True, after_ms=0)])

    def write(self, at: int, to: int) -> object:
        return self.shard.submit_part(self.plan, self.plan.drafts[at:to])

    def commit(self, *, limit: int = MANY) -> object:
        return self.shard.commit(DAG, "4", limit=limit)

    def elsewhere(self, task: str) -> None:
        """A task outside of the DAG depends on the root."""
        draft = replace(draft_of(task), parents=(ROOT,))
        if self.shard.model.find(task) is None:
            self.shard.submit([draft])

    def spawn(self, wait: str, key: str = "k") -> None:
        self.made += 1
        call = Spawn(*self.lease, [(key, draft_of(f"{self.made:026}"))], wait)
        self.shard.spawn(call)

    def gather(self, part: str, wait: str = "success") -> None:
        """A part of a wait; the last one has no tasks of its own."""
        self.made += part != "last"
        rows = [] if part == "last" else [(f"g{self.made}", draft_of(f"{self.made:026}"))]
        self.shard.spawn(Spawn(*self.lease, rows, wait, gather=wait, part=part))

    def child_waits(self, part: str) -> None:
        """The child of the root is about to wait, or waits, for a task that depends on the root."""
        child = self.shard.model.find(CHILD)
        rows = [("after", replace(draft_of(AFTER), parents=(ROOT,)))] if part == "first" else []
        if child is not None:
            self.shard.spawn(Spawn(CHILD, child.token, rows, "success", gather="g", part=part))

    def resume_step(self) -> None:
        """A tick of the resumer and of the promoter."""
        for step in sorted(self.shard.model.unfinished):
            self.shard.resume_step(step)
        self.shard.pass_time(STEP_MS)
        self.shard.unblock()
        self.shard.cancel([], request="rest")


Step = Callable[[DagScenario], object]

COMMITTED: list[Step] = [lambda s: s.write(0, 4), lambda s: s.commit()]
RUNNING: list[Step] = [*COMMITTED, lambda s: s.elsewhere(ELSEWHERE), lambda s: s.claim(0)]
STATES: dict[str, list[Step]] = {
    "none": [lambda s: s.shard.submit([draft_of(ELSEWHERE)])],
    "half written": [lambda s: s.write(0, 2)],
    "written": [lambda s: s.write(0, 2), lambda s: s.write(2, 4)],
    "half committed": [lambda s: s.write(0, 4), lambda s: s.commit(limit=1)],
    "committed": COMMITTED,
    "running": RUNNING,
    "waited for": [*RUNNING, lambda s: s.claim(1, waits=True)],
    "dead": [*RUNNING, lambda s: s.fail()],
    "dead and resolved": [*RUNNING, lambda s: s.fail(), lambda s: s.resume_step()],
    "completed": [*RUNNING, lambda s: s.shard.complete([(*s.lease, b"r")])],
    "suspended": [*RUNNING, lambda s: s.spawn("success")],
    "about to wait": [*RUNNING, lambda s: s.gather("first")],
    "about to wait for an end": [*RUNNING, lambda s: s.gather("first", "done")],
    "child about to wait": [
        *RUNNING,
        lambda s: s.spawn(""),
        lambda s: s.claim(0),
        lambda s: s.child_waits("first"),
    ],
    "resumed": [
        *RUNNING,
        lambda s: s.spawn("done"),
        lambda s: s.shard.cancel([f"{s.made:026}"], request="r0"),
        lambda s: s.resume_step(),
    ],
    "paused": [*COMMITTED, lambda s: s.shard.pause_dag(DAG)],
    "paused and running": [*RUNNING, lambda s: s.shard.pause_dag(DAG)],
    "half cancelled": [
        *RUNNING,
        lambda s: s.shard.cancel_dag(DAG, request="r0", reason="why", limit=1),
    ],
    "over": [*RUNNING, lambda s: s.shard.cancel_dag(DAG, request="r0", reason="why")],
}
MOVES: dict[str, Step] = {
    "submit": lambda s: s.write(0, 4),
    "commit": lambda s: s.commit(),
    "commit some": lambda s: s.commit(limit=2),
    "commit rest": lambda s: s.shard.commit(DAG, ""),
    "drop": lambda s: s.shard.drop(DAG),
    "join": lambda s: s.elsewhere(ELSEWHERE),
    "claim": lambda s: s.claim(1, n=2),
    "claim and wait": lambda s: s.claim(1, n=2, waits=True),
    "complete": lambda s: s.shard.complete([(*s.lease, b"r")]),
    "fail for good": lambda s: s.fail(),
    "release": lambda s: s.shard.release([s.lease]),
    "spawn": lambda s: s.spawn(""),
    "spawn and wait": lambda s: s.spawn("success"),
    "spawn and wait for the end": lambda s: s.spawn("done", "other"),
    "wait for more": lambda s: s.gather("next"),
    "wait for all": lambda s: s.gather("last"),
    "wait for the end of all": lambda s: s.gather("last", "done"),
    "child waits": lambda s: s.child_waits("last"),
    "cancel the last child": lambda s: s.shard.cancel([f"{s.made:026}"], request="r3"),
    "stale spawn": lambda s: s.shard.spawn(Spawn(*s.old, [("k", draft_of(f"{99:026}"))], "done")),
    "cancel": lambda s: s.shard.cancel([ROOT], request="r1"),
    "cancel unblock": lambda s: s.shard.cancel([ROOT], request="r2", dependents="unblock"),
    "unblock": lambda s: s.shard.unblock(),
    "revive": lambda s: s.shard.revive(ROOT, life=1),
    "discard": lambda s: s.shard.discard([ROOT]),
    "watch": lambda s: s.shard.watch("box", [f"dag_{DAG}", LEFT]),
    "pause": lambda s: s.shard.pause_dag(DAG),
    "resume": lambda s: s.shard.resume_dag(DAG),
    "cancel dag": lambda s: s.shard.cancel_dag(DAG, request="r3", reason="why"),
    "cancel some of it": lambda s: s.shard.cancel_dag(DAG, request="r4", reason="why", limit=2),
    "forget": lambda s: s.shard.forget(DAG),
    "rank": lambda s: s.shard.rank(DAG, [(ROOT, 5), (LEFT, 7)], seen="1"),
    "go on": lambda s: s.resume_step(),
    "archived": lambda s: s.shard.archived(1),
}


def dag_scenario(state: str, policy: str, server_shard: ServerShard) -> DagScenario:
    """A new scenario, with the DAG in that state. The steps to it are not compared."""
    scenario = DagScenario(ComparedDags(server_shard, archive=True), policy)
    scenario.shard.quiet = True
    for step in STATES[state]:
        step(scenario)
    scenario.old = scenario.lease
    return scenario
