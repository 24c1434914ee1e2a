"""Rules for random DAGs: submit, commit, spawn, pause, cancel and run, in any order."""

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
from tests.machine.comparison import MANY, STEP_MS
from tests.machine.dags.dag_moves import ComparedDags, DagPlan
from tests.machine.invariants.dags import check_at_rest
from tests.machine.invariants.guarantees import unchanged
from tests.machine.operator_moves import Dependents
from tests.machine.server_shard import ServerShard
from tests.machine.workers import ARCHIVES, SimulatedWorker, failed
from tests.reference.dags.spawning import Spawn
from tests.reference.records import Draft, Record, Special
from tests.servers import Server

LANE, KEYED = Lane("a", 0.0), Lane("a", 0.0, keyed=True)
# Every third task has a tenant, of which so many may be leased.
RULES = Rules((Limit(key="*", at_once=2),))
BASE = 50_000_000
POLICIES = st.sampled_from(["hold", "fail_fast", "continue"])
TRIGGERS: st.SearchStrategy[Trigger] = st.sampled_from(
    ["all_success", "all_success", "all_done", "one_failed"]
)
LIMITS = st.sampled_from([1, 2, MANY, MANY])
# Enough for any task with all its dependencies.
ONE_TASK = 6
KEYS = st.sampled_from(["k1", "k2", "k3"])
OWN_IDS = st.sampled_from([None] * 6 + ["e1", "e2"])
# A definition is stored in pieces of 64 bytes, with exceptions for the shortest and the longest.
LENGTHS = (15, 64, 65, 128, 129, 192, 193, 600)


class DagMachine(RuleBasedStateMachine):
    """The rules. Their subjects are drawn from existing tasks, mostly by state."""

    url: ClassVar[str]
    library: ClassVar[Library]

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.url, protocol=2)
        self.made = 0
        self.workers = [SimulatedWorker(number) for number in range(2)]
        self.writing: dict[str, DagPlan] = {}
        self.plans: list[DagPlan] = []
        self.waits: dict[str, Spawn] = {}

    def teardown(self) -> None:
        self.client.close()

    @initialize(archive=ARCHIVES)
    def begin(self, archive: tuple[bool, bool]) -> None:
        """A shard with one lane and one task without a DAG."""
        server_shard = ServerShard(self.client, self.library)
        exists, in_each_call = archive
        self.shard = ComparedDags(
            server_shard, archive=exists, in_each_call=in_each_call, rules=RULES
        )
        self.shard.submit([self.draft()])
        for worker in self.workers:
            worker.read_lanes(self.shard)

    # what exists

    def id(self) -> str:
        self.made += 1
        return f"{self.made:026}"

    def draft(self) -> Draft:
        task = self.id()
        definition = f"def {self.made} ".ljust(LENGTHS[self.made % len(LENGTHS)], "x")
        key = "xy"[self.made % 2] if self.made % 3 == 0 else ""
        return Draft(task, KEYED if key else LANE, BASE, definition.encode(), tenant=key)

    def among(self, *states: State) -> list[str]:
        return sorted(record.id for record in self.shard.model.among(*states))

    def running(self) -> list[Record]:
        return sorted(self.shard.model.among(State.RUNNING), key=lambda record: record.id)

    def committed(self) -> list[str]:
        return sorted(g.id for g in self.shard.model.dags.values() if g.status != "writing")

    # producers

    @rule(data=st.data(), policy=POLICIES, size=st.integers(1, 6), whole=st.booleans())
    def submit_dag(self, data: st.DataObject, policy: str, size: int, whole: bool) -> None:
        """Written in one part or two, each perhaps twice; committed, or left for later."""
        drafts: list[Draft] = []
        for _ in range(size):
            drafts.append(self.node(data, [draft.id for draft in drafts]))
        threshold = data.draw(st.sampled_from([{}, {}, {"threshold": "0.5"}, {"threshold": "1"}]))
        plan = DagPlan(self.id(), {"on_failure": policy, **threshold}, drafts)
        at = data.draw(st.integers(0, size))
        for part in (drafts[:at], drafts[at:]):
            if part and self.shard.submit_part(plan, part) != ["OK"]:
                self.shard.drop(plan.dag)
                return
        self.writing[plan.dag] = plan
        self.plans.append(plan)
        if whole:
            self.commit(data)

    def node(self, data: st.DataObject, before: list[str]) -> Draft:
        """A task with some of the former ones as dependencies, mostly plain, sometimes with one
        outside of the DAG.
        """
        near = (
            data.draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        )
        plain = replace(self.draft(), inside=tuple(near), rank=data.draw(st.sampled_from([0, 3])))
        if data.draw(st.sampled_from([True, True, False])):
            return plain
        there = sorted(self.shard.model.tasks)
        far = data.draw(st.sampled_from([(), (), (), (data.draw(st.sampled_from(there)),)]))
        special = Special(trigger=data.draw(TRIGGERS), ext=data.draw(OWN_IDS))
        how: Literal["cancel", "fail"] | None
        how = data.draw(st.sampled_from([None, None, None, "cancel", "fail"]))
        if how is not None:
            at_ms = self.shard.server_shard.now_ms + 15_000
            special = replace(special, deadline_ms=at_ms, on_deadline=how)
        delay_ms = data.draw(st.sampled_from([0, 0, 0, 5_000]))
        return replace(plain, special=special, parents=far, delay_ms=delay_ms)

    @precondition(lambda self: self.writing)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """Sent twice; with a limit the rest is left to a later call."""
        dag = data.draw(st.sampled_from(sorted(self.writing)))
        plan, limit = self.writing.pop(dag), data.draw(LIMITS)
        assert self.shard.commit(dag, str(len(plan.drafts) + 1))[0] == "STATE"
        assert self.shard.commit(dag, str(len(plan.drafts)), limit=limit)[0] == "OK"

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), limit=st.sampled_from([ONE_TASK, MANY]))
    def drop(self, data: st.DataObject, limit: int) -> None:
        """The DAG is dropped; a drop with a limit is repeated."""
        dag = data.draw(st.sampled_from(sorted(self.writing)))
        _, more = self.shard.drop(dag, limit=limit)
        while more:
            _, more = self.shard.drop(dag, limit=limit)
        del self.writing[dag]

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        """G9: a repeated part changes nothing, whatever happened to the DAG."""
        plan = data.draw(st.sampled_from(self.plans))
        known = all(draft.id in self.shard.model.tasks for draft in plan.drafts)
        before, stamp = self.shard.view, self.shard.view.writing
        if not known:
            return
        self.shard.submit_part(plan, plan.drafts)
        unchanged("G9 dag/submit", before, replace(self.shard.view, writing=stamp))

    @rule(data=st.data(), trigger=TRIGGERS)
    def submit_child(self, data: st.DataObject, trigger: Trigger) -> None:
        """A single task with any dependencies: it joins the DAG of the first one."""
        parents = data.draw(st.lists(st.sampled_from(sorted(self.shard.model.tasks)), max_size=2))
        special = Special(trigger=trigger)
        self.shard.submit([replace(self.draft(), special=special, parents=tuple(parents))])

    # workers

    @rule(at=st.integers(0, 1), n=st.sampled_from([1, 3, 8]), waits=st.booleans())
    def claim(self, at: int, n: int, waits: bool) -> None:
        self.workers[at].claim(self.shard, n, start=True, waits=waits)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), verb=st.sampled_from(["complete", "complete", "fail"]))
    def settle(self, data: st.DataObject, verb: str) -> None:
        some = data.draw(st.lists(st.sampled_from(self.running()), min_size=1, unique_by=id))
        if verb == "complete":
            rows = [(record.id, record.token, b"r") for record in some]
            self.twice("complete", lambda: self.shard.complete(rows))
        else:
            bad = [failed(r, r.token, permanent=True, after_ms=0) for r in some]
            self.twice("fail", lambda: self.shard.fail(bad))

    @precondition(lambda self: self.shard.model.ready())
    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """Makes progress: claims all tasks, then completes and fails some, or fails all."""
        self.workers[0].claim(self.shard, 8, start=True)
        if data.draw(st.sampled_from([False, False, True])):
            bad = [failed(r, r.token, permanent=True, after_ms=0) for r in self.running()]
            self.shard.fail(bad)
        for record in self.running():
            match data.draw(st.sampled_from(["complete", "complete", "fail", "run on"])):
                case "complete":
                    self.shard.complete([(record.id, record.token, b"r")])
                case "fail":
                    self.shard.fail([failed(record, record.token, permanent=True, after_ms=0)])

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def fail_and_try_again(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(self.running()))
        self.shard.fail([failed(record, record.token, permanent=False, after_ms=5_000)])

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        wait=st.sampled_from(["", "success", "done"]),
        keys=st.lists(KEYS, min_size=1, max_size=2),
        part=st.booleans(),
    )
    def spawn(self, data: st.DataObject, wait: str, keys: list[str], part: bool) -> None:
        """Children with new and known keys, perhaps with dependencies; sent twice. It may be a part
        of a wait that another call continues, or none does.
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
        self.twice("spawn", lambda: self.shard.spawn(call)[2:3])

    @precondition(lambda self: self.waits)
    @rule(data=st.data())
    def wait_for_all(self, data: st.DataObject) -> None:
        """The last part of a wait, whatever happened to its task and its children."""
        parent = data.draw(st.sampled_from(sorted(self.waits)))
        call = replace(self.waits.pop(parent), rows=[], part="last")
        self.twice("spawn", lambda: self.shard.spawn(call)[2:3])

    def twice(self, verb: str, send: Callable[[], list[str]]) -> None:
        """G9: a repeated call returns the same (LOST where another holds the lease by now)."""
        first = send()
        before = self.shard.view
        again = send()
        assert all(new in (old, "LOST") for old, new in zip(first, again, strict=True)), "G9"
        unchanged(f"G9 {verb}", before, self.shard.view)

    # operators

    @rule(data=st.data(), rest=st.sampled_from(["cascade", "cascade", "unblock"]))
    def cancel(self, data: st.DataObject, rest: Dependents) -> None:
        task = data.draw(st.sampled_from(sorted(self.shard.model.tasks)))
        request = f"r{self.shard.model.now_ms}"
        self.twice("cancel", lambda: self.shard.cancel([task], request=request, dependents=rest))

    @precondition(lambda self: self.among(State.DEAD_LETTERED))
    @rule(data=st.data(), verb=st.sampled_from(["revive", "revive", "discard"]))
    def resolve(self, data: st.DataObject, verb: str) -> None:
        task = data.draw(st.sampled_from(self.among(State.DEAD_LETTERED)))
        life, request = self.shard.model.tasks[task].life, f"d{self.shard.model.now_ms}"
        if verb == "discard":
            self.twice("discard", lambda: self.shard.discard([task], request=request))
        else:
            self.twice("revive", lambda: self.shard.revive(task, life=life, request=request))

    @precondition(lambda self: self.committed())
    @rule(
        data=st.data(),
        verb=st.sampled_from(["pause", "pause", "resume", "resume", "resume", "cancel"]),
        limit=LIMITS,
    )
    def operate(self, data: st.DataObject, verb: str, limit: int) -> None:
        """Pauses, resumes or cancels a DAG; a worker may claim before all parts are done."""
        dag = data.draw(st.sampled_from(self.committed()))
        if verb == "cancel":
            request = f"r{self.shard.model.now_ms}"
            self.shard.cancel_dag(dag, request=request, reason="no longer wanted", limit=limit)
        elif verb == "pause":
            self.shard.pause_dag(dag, limit=limit)
        else:
            self.twice("resume", lambda: self.shard.resume_dag(dag))
        if data.draw(st.booleans()):
            self.workers[1].claim(self.shard, 3, start=True)

    @precondition(lambda self: self.shard.sent)
    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        """A late copy of an operator's call, after other calls."""
        self.shard.resend(data.draw(st.sampled_from(self.shard.sent[-8:])))

    @rule(data=st.data(), verb=st.sampled_from(["priority", "time", "now", "edit", "other"]))
    def adjust(self, data: st.DataObject, verb: str) -> None:
        """Changes of one task, also of a hidden one."""
        task = data.draw(st.sampled_from(sorted(self.shard.model.tasks)))
        record = self.shard.model.tasks[task]
        match verb:
            case "priority":
                self.shard.set_priority(task, base=data.draw(st.integers(1, 3)) * BASE, was=BASE)
            case "time":
                self.shard.reschedule(task, delay_ms=5_000)
            case "now":
                self.shard.run_now(task)
            case "edit":
                size = data.draw(st.sampled_from(LENGTHS))
                self.shard.edit(task, was=record.definition, definition=b"e" * size)
            case _ if record.state is not State.DEAD_LETTERED:
                self.shard.revive(task, life=record.life)
                self.shard.discard([task])

    @rule(data=st.data())
    def watch(self, data: st.DataObject) -> None:
        there = [*sorted(self.shard.model.tasks), *(f"dag_{g}" for g in self.shard.model.dags)]
        self.shard.watch("watcher", [data.draw(st.sampled_from(there))])

    # time and unfinished operations

    @precondition(lambda self: self.shard.model.unfinished)
    @rule(data=st.data(), limit=LIMITS)
    def resume_step(self, data: st.DataObject, limit: int) -> None:
        self.shard.resume_step(
            data.draw(st.sampled_from(sorted(self.shard.model.unfinished))), limit=limit
        )

    @rule(verb=st.sampled_from(["promote", "expire", "unblock", "cancel"]))
    def run_service(self, verb: str) -> None:
        if verb == "cancel":
            self.shard.cancel([], request="rest")
        else:
            getattr(self.shard, verb)()

    @rule()
    def time_passes(self) -> None:
        self.shard.pass_time(STEP_MS)

    @precondition(lambda self: self.shard.model.outbox)
    @rule(late=st.booleans())
    def archive(self, late: bool) -> None:
        self.shard.archived(2, late=late)

    @precondition(lambda self: len(self.shard.model.tasks) > 5)
    @rule()
    def everything_settles(self) -> None:
        """Without further failures, cancels and pauses every DAG ends."""
        for dag in sorted(self.writing):
            self.shard.drop(dag)
        self.writing.clear()
        for dag in self.committed():
            self.shard.resume_dag(dag)
        for _ in range(60):
            before = self.shard.view
            self.run_all_services()
            if not self.shard.view.differences(before) and not self.shard.model.delayed():
                break
        check_at_rest(self.shard.view)

    def run_all_services(self) -> None:
        """One tick of every service; all ready tasks are completed."""
        for step in sorted(self.shard.model.unfinished):
            self.shard.resume_step(step)
        if self.shard.model.delayed():
            self.shard.pass_time(STEP_MS)
            self.shard.promote()
        if self.shard.model.telling:
            self.shard.unblock()
        if self.shard.model.cancelling:
            self.shard.cancel([], request="rest")
        if self.shard.model.ready():
            self.workers[0].claim(self.shard, MANY, start=True)
        held = self.running()
        if held:
            self.shard.complete([(record.id, record.token, b"r") for record in held])


def dag_machine(server: Server, library: Library) -> type[DagMachine]:
    """The state machine on a server, with a given library."""

    class Here(DagMachine):
        pass

    Here.url, Here.library = server.plain_url, library
    return Here
