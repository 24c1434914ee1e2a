"""The whole state machine: the rules of time, of the reaper and of operators on top of
the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, precondition, rule

from rqueue.store.library import Library
from tests.machine.budget_rules import BudgetMachine
from tests.machine.comparison import LEASE_MS, STEP_MS
from tests.machine.invariants.guarantees import unchanged
from tests.machine.operator_moves import Dependents
from tests.machine.work_rules import BASES, BREAKER_RULE, DELAYS, LANES, WORKERS
from tests.machine.workers import lost
from tests.reference.records import Lease, Record, Verdict
from tests.servers import Server

PAUSES = st.sampled_from(["queue", "type=a", "lane=1"])
tasks, leases = BudgetMachine.tasks, BudgetMachine.leases


class Machine(BudgetMachine):
    """All rules."""

    # time

    @rule(steps=st.sampled_from([1, 1, 2, 5]))
    def time_passes(self, steps: int) -> None:
        self.shard.pass_time(steps * STEP_MS)

    @rule(held=leases)
    def lease_ages(self, held: Lease) -> None:
        if self.shard.model.tasks[held[0]].leased:
            self.shard.age(held[0], LEASE_MS + 1000)

    @rule(verb=st.sampled_from(["promote", "recall", "expire", "cancel", "unblock", "tidy"]))
    def run_service(self, verb: str) -> None:
        if verb == "cancel":
            self.shard.cancel([], request="rest")
        else:
            getattr(self.shard, verb)()

    @rule(held=st.lists(leases, min_size=1, max_size=2), exclusive=st.booleans())
    def reap_some(self, held: list[Lease], exclusive: bool) -> None:
        self.shard.reap([self.judge(lease, exclusive) for lease in held])

    def silent(self) -> list[Record]:
        """The leases that were not renewed in time."""
        now_ms = self.shard.model.now_ms
        return [r for r in self.shard.model.leased() if now_ms - r.seen_ms >= LEASE_MS]

    @precondition(lambda self: self.silent())
    @rule(exclusive=st.booleans())
    def reap_silent(self, exclusive: bool) -> None:
        self.shard.reap([self.judge((r.id, r.token), exclusive) for r in self.silent()])

    @precondition(lambda self: self.shard.model.leased())
    @rule(data=st.data())
    def worker_is_lost_and_its_tasks_become_exclusive(self, data: st.DataObject) -> None:
        """A lost task is reaped and becomes exclusive, in one rule."""
        owners = sorted({record.owner for record in self.shard.model.leased()})
        held = self.shard.model.leased(data.draw(st.sampled_from(owners)))
        self.shard.start([(record.id, record.token) for record in held])
        for record in held:
            self.shard.age(record.id, LEASE_MS + 1000)
        self.shard.reap([self.judge((r.id, r.token), exclusive=True) for r in held if r.leased])
        self.shard.pass_time(5 * STEP_MS)
        self.shard.promote()

    def judge(self, lease: Lease, exclusive: bool) -> Verdict:
        record = self.shard.model.tasks[lease[0]]
        lanes = {number: lane for lane, number in self.shard.model.lanes.items()}
        moved = replace(lanes[record.lane], exclusive=True) if exclusive else None
        return replace(lost(record, lease[1]), exclusive=moved, breaker=BREAKER_RULE)

    # operators

    @rule(
        which=st.lists(tasks, min_size=1, max_size=2), rest=st.sampled_from(["cascade", "unblock"])
    )
    def cancel(self, which: list[str], rest: Dependents) -> None:
        request = f"r{self.shard.model.now_ms}"
        words = self.shard.cancel(which, request=request, dependents=rest)
        self.sent_again(
            "cancel", words, lambda: self.shard.cancel(which, request=request, dependents=rest)
        )

    @precondition(lambda self: self.shard.view.dead)
    @rule(
        target=tasks,
        data=st.data(),
        rival=st.booleans(),
        delay=st.sampled_from([0, 5_000]),
        new=st.sampled_from([b"", b"revived"]),
    )
    def revive(self, data: st.DataObject, rival: bool, delay: int, new: bytes) -> object:
        """Perhaps after another task has taken its idempotency key; sent twice, and then decided by
        another reviewer of the same life.
        """
        task = data.draw(st.sampled_from(sorted(self.shard.view.dead)))
        record = self.shard.model.tasks[task]
        other = replace(self.draft(LANES[0], 50_000_000), special=record.special)
        made = self.send([other]) if rival else multiple()
        life, request = record.life, f"v{self.shard.model.now_ms}"
        self.decide(
            lambda name: self.shard.revive(
                task, life=life, definition=new, delay_ms=delay, request=name or request
            ),
        )
        return made

    def decide(self, send: Callable[[str], list[Any]]) -> None:
        """G9: a repeated decision returns the same; another one about the same life is refused."""
        first = send("")
        self.sent_again("decide", first, lambda: send(""))
        if "OK" not in first:
            return
        before = self.shard.view
        again = send("another's")
        assert all(word.startswith("DECIDED") for word in again[:1]), again
        unchanged("a second decision", before, self.shard.view)

    @precondition(lambda self: self.shard.view.dead)
    @rule(data=st.data(), others=st.lists(tasks, max_size=1))
    def discard(self, data: st.DataObject, others: list[str]) -> None:
        task = data.draw(st.sampled_from(sorted(self.shard.view.dead)))
        request = f"d{self.shard.model.now_ms}"
        self.decide(lambda name: self.shard.discard([task, *others], request=name or request))

    @precondition(lambda self: self.shard.view.dead)
    @rule(data=st.data())
    def discard_of_a_former_life(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.shard.view.dead)))
        life, before = self.shard.model.tasks[task].life, self.shard.view
        if life > 1:
            assert self.shard.discard([task], life=life - 1) == ["DECIDED:DEAD_LETTERED"]
            unchanged("a decision about a former life", before, self.shard.view)

    @precondition(lambda self: self.shard.view.dead)
    @rule(data=st.data(), off=st.sampled_from([0, 0, 1]), revived=st.booleans())
    def escalate(self, data: st.DataObject, off: int, revived: bool) -> None:
        """Sent twice, also with another life than its own; perhaps retried at once."""
        task = data.draw(st.sampled_from(sorted(self.shard.view.dead)))
        life, request = self.shard.model.tasks[task].life - off, f"e{self.shard.model.now_ms}"
        for _ in range(2):
            self.shard.escalate(task, life=life, request=request)
        if revived:
            self.shard.revive(task, life=self.shard.model.tasks[task].life)

    @rule(task=tasks, data=st.data())
    def adjust(self, task: str, data: st.DataObject) -> None:
        match data.draw(st.sampled_from(["priority", "time", "now", "payload", "watch", "life"])):
            case "priority":
                self.shard.set_priority(task, base=data.draw(BASES), was=self.bases[task])
            case "time":
                self.shard.reschedule(task, delay_ms=data.draw(DELAYS))
            case "now":
                self.shard.run_now(task)
            case "payload":
                was = data.draw(st.sampled_from([b"else", self.shard.model.tasks[task].definition]))
                size = data.draw(st.sampled_from([10, 200, 600]))
                self.shard.edit(task, was=was, definition=b"e" * size)
            case "life":
                self.shard.revive(task, life=self.shard.model.tasks[task].life - 1)
                self.shard.discard([task])
            case _:
                self.shard.watch("watcher", [task])

    @rule(what=PAUSES, verb=st.sampled_from(["pause", "resume", "resume"]))
    def gate(self, what: str, verb: str) -> None:
        getattr(self.shard, verb)(what)

    @precondition(lambda self: self.shard.sent)
    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        """A late copy of an operator's call, after other calls."""
        self.shard.resend(data.draw(st.sampled_from(self.shard.sent[-8:])))

    @rule(at=WORKERS)
    def drain(self, at: int) -> None:
        self.shard.drain(self.workers[at].consumer)

    @rule(type=st.sampled_from(["a", "b"]), verb=st.sampled_from(["open", "close"]))
    def breaker(self, type: str, verb: str) -> None:
        if verb == "open":
            self.shard.open_breaker(type, 15_000)
        else:
            self.shard.close_breaker(type)

    @precondition(lambda self: self.shard.model.slowed)
    @rule(data=st.data())
    def lift(self, data: st.DataObject) -> None:
        """Lifts a slow-down, or that of a type without one."""
        self.shard.lift_slowdown(
            data.draw(st.sampled_from([*sorted(self.shard.model.slowed), "b"]))
        )

    @precondition(lambda self: self.shard.model.outbox)
    @rule(entries=st.integers(0, 2))
    def archive_or_flush_functions(self, entries: int) -> None:
        if entries:
            self.shard.archived(entries)
        else:
            self.shard.flush_functions()


def machine(server: Server, library: Library) -> type[Machine]:
    """The state machine on a server, with a given library."""

    class Here(Machine):
        pass

    Here.url, Here.library = server.plain_url, library
    return Here
