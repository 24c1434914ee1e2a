"""Random graphs: written, committed, grown, paused, given up and run, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rqueue.store.library import Library
from rqueue.task.dag import Trigger
from rqueue.task.lane import Lane
from rqueue.task.limits import Limit, Rules
from rqueue.task.state import State
from tests.machine.fleet import ARCHIVES, Seat, failed
from tests.machine.graph_hands import GraphHands, PlantedQueue
from tests.machine.graph_invariants import at_rest
from tests.machine.hands import Dependents
from tests.machine.invariants import unchanged
from tests.machine.twin import MANY, STEP_MS
from tests.machine.wire import Wire
from tests.reference.records import Draft, Record, Special
from tests.reference.spawning import Spawn
from tests.servers import Server

LANE, KEYED = Lane("a", 0.0), Lane("a", 0.0, keyed=True)
# Every third task has a limit key, of which so many may be in hand.
RULES = Rules((Limit(key="*", at_once=2),))
BASE = 50_000_000
POLICIES = st.sampled_from(["hold", "fail_fast", "continue"])
TRIGGERS: st.SearchStrategy[Trigger] = st.sampled_from(
    ["all_success", "all_success", "all_done", "one_failed"]
)
LIMITS = st.sampled_from([1, 2, MANY, MANY])
# Enough for any task and all that it waits for.
ONE_TASK = 6
KEYS = st.sampled_from(["k1", "k2", "k3"])
OWN_IDS = st.sampled_from([None] * 6 + ["e1", "e2"])
# A definition is written in pieces of 64 bytes, and the shortest and the longest otherwise.
LENGTHS = (15, 64, 65, 128, 129, 192, 193, 600)


class GraphMachine(RuleBasedStateMachine):
    """The rules. What they act on is drawn from what is there; most of it by its state."""

    url: ClassVar[str]
    scripts: ClassVar[Library]

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.url, protocol=2)
        self.made = 0
        self.seats = [Seat(number) for number in range(2)]
        self.writing: dict[str, PlantedQueue] = {}
        self.planted_queue: list[PlantedQueue] = []
        self.waits: dict[str, Spawn] = {}

    def teardown(self) -> None:
        self.client.close()

    @initialize(archive=ARCHIVES)
    def begin(self, archive: tuple[bool, bool]) -> None:
        """A shard with one lane, and a task that has nothing to do with any DAG."""
        wire = Wire(self.client, self.scripts)
        there, said = archive
        self.twin = GraphHands(wire, archive=there, said=said, rules=RULES)
        self.twin.submit([self.draft()])
        for seat in self.seats:
            seat.look(self.twin)

    # what there is

    def id(self) -> str:
        self.made += 1
        return f"{self.made:026}"

    def draft(self) -> Draft:
        task = self.id()
        definition = f"def {self.made} ".ljust(LENGTHS[self.made % len(LENGTHS)], "x")
        key = "xy"[self.made % 2] if self.made % 3 == 0 else ""
        return Draft(task, KEYED if key else LANE, BASE, definition.encode(), key=key)

    def among(self, *states: State) -> list[str]:
        return sorted(record.id for record in self.twin.model.among(*states))

    def running(self) -> list[Record]:
        return sorted(self.twin.model.among(State.RUNNING), key=lambda record: record.id)

    def committed(self) -> list[str]:
        return sorted(g.id for g in self.twin.model.dags.values() if g.status != "writing")

    # producers

    @rule(data=st.data(), policy=POLICIES, size=st.integers(1, 6), whole=st.booleans())
    def submit_dag(self, data: st.DataObject, policy: str, size: int, whole: bool) -> None:
        """Written in one part or two, each perhaps twice; committed, or left for later."""
        drafts: list[Draft] = []
        for _ in range(size):
            drafts.append(self.node(data, [draft.id for draft in drafts]))
        threshold = data.draw(st.sampled_from([{}, {}, {"threshold": "0.5"}, {"threshold": "1"}]))
        planted_queue = PlantedQueue(self.id(), {"on_failure": policy, **threshold}, drafts)
        at = data.draw(st.integers(0, size))
        for part in (drafts[:at], drafts[at:]):
            if part and self.twin.plant(planted_queue, part) != ["OK"]:
                self.twin.drop(planted_queue.dag)
                return
        self.writing[planted_queue.dag] = planted_queue
        self.planted_queue.append(planted_queue)
        if whole:
            self.commit(data)

    def node(self, data: st.DataObject, before: list[str]) -> Draft:
        """A task after some of those before it, mostly plain, sometimes after one of elsewhere."""
        near = (
            data.draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        )
        plain = replace(self.draft(), inside=tuple(near), rank=data.draw(st.sampled_from([0, 3])))
        if data.draw(st.sampled_from([True, True, False])):
            return plain
        there = sorted(self.twin.model.tasks)
        far = data.draw(st.sampled_from([(), (), (), (data.draw(st.sampled_from(there)),)]))
        special = Special(trigger=data.draw(TRIGGERS), ext=data.draw(OWN_IDS))
        how: Literal["cancel", "fail"] | None
        how = data.draw(st.sampled_from([None, None, None, "cancel", "fail"]))
        if how is not None:
            at_ms = self.twin.wire.now_ms + 15_000
            special = replace(special, deadline_ms=at_ms, on_deadline=how)
        delay_ms = data.draw(st.sampled_from([0, 0, 0, 5_000]))
        return replace(plain, special=special, parents=far, delay_ms=delay_ms)

    @precondition(lambda self: self.writing)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """Sent twice; what one call cannot reach is left."""
        dag = data.draw(st.sampled_from(sorted(self.writing)))
        planted_queue, limit = self.writing.pop(dag), data.draw(LIMITS)
        assert self.twin.commit(dag, str(len(planted_queue.drafts) + 1))[0] == "STATE"
        assert self.twin.commit(dag, str(len(planted_queue.drafts)), limit=limit)[0] == "OK"

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), limit=st.sampled_from([ONE_TASK, MANY]))
    def drop(self, data: st.DataObject, limit: int) -> None:
        """Its producer gives up; what was begun to be dropped may be sent again."""
        dag = data.draw(st.sampled_from(sorted(self.writing)))
        _, more = self.twin.drop(dag, limit=limit)
        while more:
            _, more = self.twin.drop(dag, limit=limit)
        del self.writing[dag]

    @precondition(lambda self: self.planted_queue)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        """G9: a part that is sent again changes nothing, whatever has become of the DAG."""
        planted_queue = data.draw(st.sampled_from(self.planted_queue))
        known = all(draft.id in self.twin.model.tasks for draft in planted_queue.drafts)
        before, stamp = self.twin.view, self.twin.view.writing
        if not known:
            return
        self.twin.plant(planted_queue, planted_queue.drafts)
        unchanged("G9 dag/submit", before, replace(self.twin.view, writing=stamp))

    @rule(data=st.data(), trigger=TRIGGERS)
    def submit_child(self, data: st.DataObject, trigger: Trigger) -> None:
        """A task on its own, with parents anywhere: it joins the first one's DAG."""
        parents = data.draw(st.lists(st.sampled_from(sorted(self.twin.model.tasks)), max_size=2))
        special = Special(trigger=trigger)
        self.twin.submit([replace(self.draft(), special=special, parents=tuple(parents))])

    # workers

    @rule(at=st.integers(0, 1), n=st.sampled_from([1, 3, 8]), parks=st.booleans())
    def claim(self, at: int, n: int, parks: bool) -> None:
        self.seats[at].claim(self.twin, n, start=True, parks=parks)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), verb=st.sampled_from(["complete", "complete", "fail"]))
    def settle(self, data: st.DataObject, verb: str) -> None:
        some = data.draw(st.lists(st.sampled_from(self.running()), min_size=1, unique_by=id))
        if verb == "complete":
            rows = [(record.id, record.token, b"r") for record in some]
            self.twice("complete", lambda: self.twin.complete(rows))
        else:
            bad = [failed(r, r.token, permanent=True, after_ms=0) for r in some]
            self.twice("fail", lambda: self.twin.fail(bad))

    @precondition(lambda self: self.twin.model.ready())
    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """The way forward: what there is is claimed, and ends well or not, or all of it badly."""
        self.seats[0].claim(self.twin, 8, start=True)
        if data.draw(st.sampled_from([False, False, True])):
            bad = [failed(r, r.token, permanent=True, after_ms=0) for r in self.running()]
            self.twin.fail(bad)
        for record in self.running():
            match data.draw(st.sampled_from(["complete", "complete", "fail", "run on"])):
                case "complete":
                    self.twin.complete([(record.id, record.token, b"r")])
                case "fail":
                    self.twin.fail([failed(record, record.token, permanent=True, after_ms=0)])

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def fail_and_try_again(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(self.running()))
        self.twin.fail([failed(record, record.token, permanent=False, after_ms=5_000)])

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        wait=st.sampled_from(["", "success", "done"]),
        keys=st.lists(KEYS, min_size=1, max_size=2),
        part=st.booleans(),
    )
    def spawn(self, data: st.DataObject, wait: str, keys: list[str], part: bool) -> None:
        """Children of new keys and known ones, perhaps after tasks that are there; sent twice. It
        may be a part of a wait that goes on with the next, or never does.
        """
        parent = data.draw(st.sampled_from(self.running()))
        rows = []
        for key in keys:
            draft = self.node(data, [])
            rows.append((key, replace(draft, rank=0)))
        call = Spawn(parent.id, parent.token, rows, wait)
        if part and wait:
            begun = self.waits.get(parent.id)
            goes_on = begun is not None and (begun.token, begun.wait) == (parent.token, wait)
            name = begun.gather if begun is not None and goes_on else self.id()
            call = replace(call, gather=name, part="next" if goes_on else "first")
            self.waits[parent.id] = call
        self.twice("spawn", lambda: self.twin.spawn(call)[2:3])

    @precondition(lambda self: self.waits)
    @rule(data=st.data())
    def wait_for_all(self, data: st.DataObject) -> None:
        """The last part of a wait, whatever has become of its task and of the others."""
        parent = data.draw(st.sampled_from(sorted(self.waits)))
        call = replace(self.waits.pop(parent), rows=[], part="last")
        self.twice("spawn", lambda: self.twin.spawn(call)[2:3])

    def twice(self, verb: str, send: Callable[[], list[str]]) -> None:
        """G9: sent again, it says the same (LOST where another holds it by now)."""
        first = send()
        before = self.twin.view
        again = send()
        assert all(new in (old, "LOST") for old, new in zip(first, again, strict=True)), "G9"
        unchanged(f"G9 {verb}", before, self.twin.view)

    # operators

    @rule(data=st.data(), rest=st.sampled_from(["cascade", "cascade", "unblock"]))
    def cancel(self, data: st.DataObject, rest: Dependents) -> None:
        task = data.draw(st.sampled_from(sorted(self.twin.model.tasks)))
        request = f"r{self.twin.model.now_ms}"
        self.twice("cancel", lambda: self.twin.cancel([task], request=request, dependents=rest))

    @precondition(lambda self: self.among(State.DEAD_LETTERED))
    @rule(data=st.data(), verb=st.sampled_from(["revive", "revive", "discard"]))
    def resolve(self, data: st.DataObject, verb: str) -> None:
        task = data.draw(st.sampled_from(self.among(State.DEAD_LETTERED)))
        life, request = self.twin.model.tasks[task].life, f"d{self.twin.model.now_ms}"
        if verb == "discard":
            self.twice("discard", lambda: self.twin.discard([task], request=request))
        else:
            self.twice("revive", lambda: self.twin.revive(task, life=life, request=request))

    @precondition(lambda self: self.committed())
    @rule(
        data=st.data(),
        verb=st.sampled_from(["pause", "pause", "resume", "resume", "resume", "cancel"]),
        limit=LIMITS,
    )
    def operate(self, data: st.DataObject, verb: str, limit: int) -> None:
        """On a DAG as a whole; a worker may be quicker than the rest of it."""
        dag = data.draw(st.sampled_from(self.committed()))
        if verb == "cancel":
            request = f"r{self.twin.model.now_ms}"
            self.twin.cancel_dag(dag, request=request, reason="no longer wanted", limit=limit)
        elif verb == "pause":
            self.twin.pause_dag(dag, limit=limit)
        else:
            self.twice("resume", lambda: self.twin.resume_dag(dag))
        if data.draw(st.booleans()):
            self.seats[1].claim(self.twin, 3, start=True)

    @precondition(lambda self: self.twin.sent)
    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        """A copy of a call by hand comes late, after whatever else came."""
        self.twin.resend(data.draw(st.sampled_from(self.twin.sent[-8:])))

    @rule(data=st.data(), verb=st.sampled_from(["priority", "time", "now", "edit", "other"]))
    def adjust(self, data: st.DataObject, verb: str) -> None:
        """Changes of one task, also of one that nobody sees yet."""
        task = data.draw(st.sampled_from(sorted(self.twin.model.tasks)))
        record = self.twin.model.tasks[task]
        match verb:
            case "priority":
                self.twin.set_priority(task, base=data.draw(st.integers(1, 3)) * BASE, was=BASE)
            case "time":
                self.twin.reschedule(task, delay_ms=5_000)
            case "now":
                self.twin.run_now(task)
            case "edit":
                size = data.draw(st.sampled_from(LENGTHS))
                self.twin.edit(task, was=record.definition, definition=b"e" * size)
            case _ if record.state is not State.DEAD_LETTERED:
                self.twin.revive(task, life=record.life)
                self.twin.discard([task])

    @rule(data=st.data())
    def watch(self, data: st.DataObject) -> None:
        there = [*sorted(self.twin.model.tasks), *(f"dag_{g}" for g in self.twin.model.dags)]
        self.twin.watch("watcher", [data.draw(st.sampled_from(there))])

    # time and those who go on with what is left

    @precondition(lambda self: self.twin.model.unfinished)
    @rule(data=st.data(), limit=LIMITS)
    def go_on(self, data: st.DataObject, limit: int) -> None:
        self.twin.go_on(data.draw(st.sampled_from(sorted(self.twin.model.unfinished))), limit=limit)

    @rule(verb=st.sampled_from(["promote", "expire", "unblock", "cancel"]))
    def time_brings(self, verb: str) -> None:
        if verb == "cancel":
            self.twin.cancel([], request="rest")
        else:
            getattr(self.twin, verb)()

    @rule()
    def time_passes(self) -> None:
        self.twin.pass_time(STEP_MS)

    @precondition(lambda self: self.twin.model.outbox)
    @rule(late=st.booleans())
    def archive(self, late: bool) -> None:
        self.twin.archived(2, late=late)

    @precondition(lambda self: len(self.twin.model.tasks) > 5)
    @rule()
    def all_comes_to_rest(self) -> None:
        """Nobody fails, cancels or pauses any more: whatever has happened, nothing hangs."""
        for dag in sorted(self.writing):
            self.twin.drop(dag)
        self.writing.clear()
        for dag in self.committed():
            self.twin.resume_dag(dag)
        for _ in range(60):
            before = self.twin.view
            self.one_round()
            if not self.twin.view.differences(before) and not self.twin.model.delayed():
                break
        at_rest(self.twin.view)

    def one_round(self) -> None:
        """One tick of every service, and all work that there is."""
        for step in sorted(self.twin.model.unfinished):
            self.twin.go_on(step)
        if self.twin.model.delayed():
            self.twin.pass_time(STEP_MS)
            self.twin.promote()
        if self.twin.model.telling:
            self.twin.unblock()
        if self.twin.model.cancelling:
            self.twin.cancel([], request="rest")
        if self.twin.model.ready():
            self.seats[0].claim(self.twin, MANY, start=True)
        held = self.running()
        if held:
            self.twin.complete([(record.id, record.token, b"r") for record in held])


def graph_machine(server: Server, scripts: Library) -> type[GraphMachine]:
    """The machine on a server, with scripts of the caller's choice."""

    class Here(GraphMachine):
        pass

    Here.url, Here.scripts = server.plain_url, scripts
    return Here
