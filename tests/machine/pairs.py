"""Every script of two clients on the same tasks, from every state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rqueue.task.lane import Lane
from rqueue.task.limits import Limit, Rules
from tests.machine.fleet import Seat, failed, lost
from tests.machine.hands import Hands
from tests.machine.twin import STEP_MS
from tests.machine.wire import Wire
from tests.reference.records import Draft, Lease, Special

LANE, OF_KEYS = Lane("a", 0.0), Lane("a", 0.0, keyed=True)
# One task of a key at a time: whatever ends it lets the next one in.
RULES = Rules((Limit(key="*", at_once=1),))
KEYED = Special(idem="k")


class Scene:
    """A task, its child and a bystander; two workers, one of whom may wait; an old token."""

    def __init__(self, twin: Hands, lane: Lane) -> None:
        self.twin, self.lane = twin, lane
        self.seats = Seat(0), Seat(1)
        own = "x" if lane.keyed else ""
        self.draft = Draft("T1", lane, 1_000_000, b"one", KEYED, key=own)
        self.child = Draft("T2", lane, 5_000_000, b"two", parents=("T1",), key=own)
        self.old: Lease = ("T1", "1:none")

    @property
    def lease(self) -> Lease:
        """The token that the task has now, whoever holds it."""
        record = self.twin.model.find("T1")
        return ("T1", record.token if record and record.token else "1:none")

    def move(self, name: str) -> None:
        """A move by its name, where it means anything."""
        if "T1" in self.twin.model.tasks or name not in NEEDS_TASK:
            MOVES[name](self)

    def fail(self, lease: Lease, *, permanent: bool) -> None:
        record = self.twin.model.tasks["T1"]
        self.twin.fail([failed(record, lease[1], permanent=permanent, after_ms=5_000)])

    def reap(self, lease: Lease) -> None:
        verdict = lost(self.twin.model.tasks["T1"], lease[1])
        self.twin.reap([replace(verdict, exclusive=replace(self.lane, exclusive=True))])

    def later(self) -> Scene:
        """Everything that waits for time has waited long enough; leases are silent."""
        self.twin.pass_time(6 * STEP_MS)
        return self

    def claim(self, seat: int, *, start: bool = False, parks: bool = False) -> None:
        self.seats[seat].claim(self.twin, 1, start=start, parks=parks)


Step = Callable[[Scene], object]

# How a task comes to be in each state; most are reached by more than one way.
STATES: dict[str, list[Step]] = {
    "none": [],
    "READY": [lambda s: s.twin.submit([s.draft, s.child])],
    "PENDING": [lambda s: s.twin.submit([replace(s.draft, delay_ms=5_000), s.child])],
    "CLAIMED": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0),
    ],
    "mailed": [
        lambda s: s.twin.submit([replace(s.draft, delay_ms=5_000), s.child]),
        lambda s: s.claim(0, parks=True),
        lambda s: s.twin.run_now("T1", request="r4"),
    ],
    "RUNNING": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
    ],
    "VALIDATING": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.twin.validate([s.lease]),
    ],
    "RETRYING": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.fail(s.lease, permanent=False),
    ],
    "READY again": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.twin.release([s.lease]),
    ],
    "RUNNING again": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.twin.release([s.lease]),
        lambda s: s.claim(1, start=True),
    ],
    "DEAD_LETTERED": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.fail(s.lease, permanent=True),
    ],
    "COMPLETED": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.claim(0, start=True),
        lambda s: s.twin.complete([(*s.lease, b"r")]),
    ],
    "CANCELLED": [
        lambda s: s.twin.submit([s.draft, s.child]),
        lambda s: s.twin.cancel(["T1"], request="r0"),
    ],
}

# Every script, as a client would send it: with the token the task has, and with an old one.
MOVES: dict[str, Step] = {
    "submit": lambda s: s.twin.submit([s.draft, s.child]),
    "submit keep": lambda s: s.twin.submit([replace(s.draft, id="T3")]),
    "submit replace": lambda s: s.twin.submit([replace(s.draft, id="T4", if_exists="replace")]),
    "submit debounce": lambda s: s.twin.submit(
        [replace(s.draft, id="T5", if_exists="debounce", delay_ms=5_000)]
    ),
    "submit child": lambda s: s.twin.submit([replace(s.child, id="T6")]),
    "claim": lambda s: s.claim(1),
    "claim started": lambda s: s.claim(0, start=True),
    "claim parked": lambda s: s.claim(1, parks=True),
    "start": lambda s: s.twin.start([s.lease]),
    "renew": lambda s: s.twin.renew(s.seats[0].consumer, [s.lease]),
    "validate": lambda s: s.twin.validate([s.lease]),
    "complete": lambda s: s.twin.complete([(*s.lease, b"r")]),
    "fail": lambda s: s.fail(s.lease, permanent=False),
    "fail for good": lambda s: s.fail(s.lease, permanent=True),
    "park": lambda s: s.twin.park([(*s.lease, 5_000)]),
    "release": lambda s: s.twin.release([s.lease]),
    "stale start": lambda s: s.twin.start([s.old]),
    "stale renew": lambda s: s.twin.renew(s.seats[0].consumer, [s.old]),
    "stale complete": lambda s: s.twin.complete([(*s.old, b"r")]),
    "stale fail": lambda s: s.fail(s.old, permanent=True),
    "stale release": lambda s: s.twin.release([s.old]),
    "reap": lambda s: s.reap(s.lease),
    "reap silent": lambda s: s.later().reap(s.lease),
    "recall": lambda s: s.twin.recall(),
    "recall late": lambda s: s.later().twin.recall(),
    "promote": lambda s: s.twin.promote(),
    "promote late": lambda s: s.later().twin.promote(),
    "run now": lambda s: s.twin.run_now("T1", request="r4"),
    "expire": lambda s: s.twin.expire(),
    "cancel": lambda s: s.twin.cancel(["T1"], request="r1"),
    "cancel unblock": lambda s: s.twin.cancel(["T1"], request="r2", dependents="unblock"),
    "cancel rest": lambda s: s.twin.cancel([], request="r3"),
    "revive": lambda s: s.twin.revive("T1", life=1, request="r6"),
    "revive later": lambda s: s.twin.revive("T1", life=1, definition=b"new", delay_ms=5_000),
    "discard": lambda s: s.twin.discard(["T1"], life=1, request="r7"),
    "discard by another": lambda s: s.twin.discard(["T1"], life=1),
    "escalate": lambda s: s.twin.escalate("T1", life=1, request="r5"),
    "set_priority": lambda s: s.twin.set_priority("T1", base=9_000_000, was=1_000_000),
    "reschedule": lambda s: s.twin.reschedule("T1", delay_ms=5_000),
    "edit": lambda s: s.twin.edit("T1", was=b"one", definition=b"other"),
    "watch": lambda s: s.twin.watch("box", ["T1"]),
    "pause": lambda s: s.twin.pause("queue"),
    "resume": lambda s: s.twin.resume("queue"),
    "archived": lambda s: s.twin.archived(1),
}
# Without a task there is nothing to hold or to decide about.
NEEDS_TASK = {name for name in MOVES if name.split()[-1] in ("start", "renew", "complete")} | {
    "validate", "fail", "fail for good", "park", "release", "stale fail", "stale release",
    "reap", "reap silent",
}  # fmt: skip


def scene_in(state: str, wire: Wire, lane: Lane = LANE) -> Scene:
    """A fresh scene, with the task in that state. The way there is not compared: its steps are."""
    scene = Scene(Hands(wire, archive=True, rules=RULES), lane)
    scene.twin.quiet = True
    for step in STATES[state]:
        step(scene)
    scene.old = scene.lease
    return scene
