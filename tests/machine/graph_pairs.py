"""Every script that bears on a DAG, of two clients, from every state that the DAG can be in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rqueue.task.dag import Trigger
from rqueue.task.lane import Lane
from tests.machine.fleet import Seat, failed
from tests.machine.graph_hands import GraphHands, PlantedQueue
from tests.machine.twin import MANY, STEP_MS
from tests.machine.wire import Wire
from tests.reference.records import Draft, Lease, Special
from tests.reference.spawning import Spawn

LANE = Lane("a", 0.0)
ROOT, LEFT, ALARM, LAST, ELSEWHERE, DAG = (f"{number:026}" for number in range(1, 7))
# The first that the root spawns, and what that one spawns.
CHILD, AFTER = f"{11:026}", f"{90:026}"


def a_draft(task: str, *inside: str, trigger: Trigger = "all_success") -> Draft:
    base, special = 50_000_000 + int(task), Special(trigger=trigger)
    return Draft(task, LANE, base, task[-2:].encode(), special, inside=inside)


class GraphScene:
    """A root, one after it, one that waits for its failure, one after the end of both; a task that
    stands elsewhere and waits for the root too.
    """

    def __init__(self, twin: GraphHands, policy: str) -> None:
        self.twin = twin
        self.seats = Seat(0), Seat(1)
        self.made = 10
        drafts = [
            a_draft(ROOT),
            a_draft(LEFT, ROOT),
            a_draft(ALARM, ROOT, trigger="one_failed"),
            a_draft(LAST, LEFT, ALARM, trigger="all_done"),
        ]
        self.planted_queue = PlantedQueue(DAG, {"on_failure": policy}, drafts)
        self.old: Lease = (ROOT, "1:none")

    @property
    def lease(self) -> Lease:
        """The token that the root has now, whoever holds it."""
        record = self.twin.model.find(ROOT)
        return (ROOT, record.token if record and record.token else "1:none")

    def move(self, name: str) -> None:
        """A move by its name."""
        MOVES[name](self)

    def claim(self, seat: int, *, n: int = 1, parks: bool = False) -> None:
        self.seats[seat].claim(self.twin, n, start=True, parks=parks)

    def fail(self) -> None:
        """The root dies."""
        record = self.twin.model.find(ROOT)
        if record is not None:
            self.twin.fail([failed(record, record.token, permanent=True, after_ms=0)])

    def write(self, at: int, to: int) -> object:
        return self.twin.plant(self.planted_queue, self.planted_queue.drafts[at:to])

    def commit(self, *, limit: int = MANY) -> object:
        return self.twin.commit(DAG, "4", limit=limit)

    def elsewhere(self, task: str) -> None:
        """A task of no DAG waits for the root."""
        draft = replace(a_draft(task), parents=(ROOT,))
        if self.twin.model.find(task) is None:
            self.twin.submit([draft])

    def spawn(self, wait: str, key: str = "k") -> None:
        self.made += 1
        call = Spawn(*self.lease, [(key, a_draft(f"{self.made:026}"))], wait)
        self.twin.spawn(call)

    def gather(self, part: str, wait: str = "success") -> None:
        """A part of a wait; the last one has no tasks of its own."""
        self.made += part != "last"
        rows = [] if part == "last" else [(f"g{self.made}", a_draft(f"{self.made:026}"))]
        self.twin.spawn(Spawn(*self.lease, rows, wait, gather=wait, part=part))

    def child_waits(self, part: str) -> None:
        """The child that runs beside the root is about to wait for one after the root, or does."""
        child = self.twin.model.find(CHILD)
        rows = [("after", replace(a_draft(AFTER), parents=(ROOT,)))] if part == "first" else []
        if child is not None:
            self.twin.spawn(Spawn(CHILD, child.token, rows, "success", gather="g", part=part))

    def go_on(self) -> None:
        """A tick of the keeper and of the promoter."""
        for step in sorted(self.twin.model.unfinished):
            self.twin.go_on(step)
        self.twin.pass_time(STEP_MS)
        self.twin.unblock()
        self.twin.cancel([], request="rest")


Step = Callable[[GraphScene], object]

COMMITTED: list[Step] = [lambda s: s.write(0, 4), lambda s: s.commit()]
RUNNING: list[Step] = [*COMMITTED, lambda s: s.elsewhere(ELSEWHERE), lambda s: s.claim(0)]
STATES: dict[str, list[Step]] = {
    "none": [lambda s: s.twin.submit([a_draft(ELSEWHERE)])],
    "half written": [lambda s: s.write(0, 2)],
    "written": [lambda s: s.write(0, 2), lambda s: s.write(2, 4)],
    "half committed": [lambda s: s.write(0, 4), lambda s: s.commit(limit=1)],
    "committed": COMMITTED,
    "running": RUNNING,
    "waited for": [*RUNNING, lambda s: s.claim(1, parks=True)],
    "dead": [*RUNNING, lambda s: s.fail()],
    "dead and told": [*RUNNING, lambda s: s.fail(), lambda s: s.go_on()],
    "completed": [*RUNNING, lambda s: s.twin.complete([(*s.lease, b"r")])],
    "suspended": [*RUNNING, lambda s: s.spawn("success")],
    "about to wait": [*RUNNING, lambda s: s.gather("first")],
    "about to wait for an end": [*RUNNING, lambda s: s.gather("first", "done")],
    "its child is about to wait": [
        *RUNNING,
        lambda s: s.spawn(""),
        lambda s: s.claim(0),
        lambda s: s.child_waits("first"),
    ],
    "resumed": [
        *RUNNING,
        lambda s: s.spawn("done"),
        lambda s: s.twin.cancel([f"{s.made:026}"], request="r0"),
        lambda s: s.go_on(),
    ],
    "paused": [*COMMITTED, lambda s: s.twin.pause_dag(DAG)],
    "paused and running": [*RUNNING, lambda s: s.twin.pause_dag(DAG)],
    "given up": [*RUNNING, lambda s: s.twin.cancel_dag(DAG, request="r0", reason="why", limit=1)],
    "over": [*RUNNING, lambda s: s.twin.cancel_dag(DAG, request="r0", reason="why")],
}
MOVES: dict[str, Step] = {
    "submit": lambda s: s.write(0, 4),
    "commit": lambda s: s.commit(),
    "commit some": lambda s: s.commit(limit=2),
    "commit rest": lambda s: s.twin.commit(DAG, ""),
    "drop": lambda s: s.twin.drop(DAG),
    "join": lambda s: s.elsewhere(ELSEWHERE),
    "claim": lambda s: s.claim(1, n=2),
    "claim parked": lambda s: s.claim(1, n=2, parks=True),
    "complete": lambda s: s.twin.complete([(*s.lease, b"r")]),
    "fail for good": lambda s: s.fail(),
    "release": lambda s: s.twin.release([s.lease]),
    "spawn": lambda s: s.spawn(""),
    "spawn and wait": lambda s: s.spawn("success"),
    "spawn and wait for the end": lambda s: s.spawn("done", "other"),
    "wait for more": lambda s: s.gather("next"),
    "wait for all": lambda s: s.gather("last"),
    "wait for the end of all": lambda s: s.gather("last", "done"),
    "its child waits": lambda s: s.child_waits("last"),
    "the awaited is cancelled": lambda s: s.twin.cancel([f"{s.made:026}"], request="r3"),
    "stale spawn": lambda s: s.twin.spawn(Spawn(*s.old, [("k", a_draft(f"{99:026}"))], "done")),
    "cancel": lambda s: s.twin.cancel([ROOT], request="r1"),
    "cancel unblock": lambda s: s.twin.cancel([ROOT], request="r2", dependents="unblock"),
    "unblock": lambda s: s.twin.unblock(),
    "revive": lambda s: s.twin.revive(ROOT, life=1),
    "discard": lambda s: s.twin.discard([ROOT]),
    "watch": lambda s: s.twin.watch("box", [f"dag_{DAG}", LEFT]),
    "pause": lambda s: s.twin.pause_dag(DAG),
    "resume": lambda s: s.twin.resume_dag(DAG),
    "cancel dag": lambda s: s.twin.cancel_dag(DAG, request="r3", reason="why"),
    "cancel some of it": lambda s: s.twin.cancel_dag(DAG, request="r4", reason="why", limit=2),
    "forget": lambda s: s.twin.forget(DAG),
    "rank": lambda s: s.twin.rank(DAG, [(ROOT, 5), (LEFT, 7)], seen="1"),
    "go on": lambda s: s.go_on(),
    "archived": lambda s: s.twin.archived(1),
}


def graph_scene(state: str, policy: str, wire: Wire) -> GraphScene:
    """A fresh scene, with the DAG in that state. The way there is not compared: its steps are."""
    scene = GraphScene(GraphHands(wire, archive=True), policy)
    scene.twin.quiet = True
    for step in STATES[state]:
        step(scene)
    scene.old = scene.lease
    return scene
