"""The rules of time, of the reaper and of operators: with them the machine is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, precondition, rule

from rqueue.store.library import Library
from tests.machine.fleet import lost
from tests.machine.hands import Dependents
from tests.machine.invariants import unchanged
from tests.machine.money_rules import MoneyMachine
from tests.machine.rules import BASES, DELAYS, LANES, SEATS, SOON
from tests.machine.twin import LEASE_MS, STEP_MS
from tests.reference.records import Lease, Record, Verdict
from tests.servers import Server

PAUSES = st.sampled_from(["queue", "type=a", "lane=1"])
tasks, leases = MoneyMachine.tasks, MoneyMachine.leases


class Machine(MoneyMachine):
    """All rules."""

    # time

    @rule(steps=st.sampled_from([1, 1, 2, 5]))
    def time_passes(self, steps: int) -> None:
        self.twin.pass_time(steps * STEP_MS)

    @rule(held=leases)
    def lease_ages(self, held: Lease) -> None:
        if self.twin.model.tasks[held[0]].in_hand:
            self.twin.age(held[0], LEASE_MS + 1000)

    @rule(verb=st.sampled_from(["promote", "recall", "expire", "cancel", "unblock", "tidy"]))
    def time_brings(self, verb: str) -> None:
        if verb == "cancel":
            self.twin.cancel([], request="rest")
        else:
            getattr(self.twin, verb)()

    @rule(held=st.lists(leases, min_size=1, max_size=2), exclusive=st.booleans())
    def reap_some(self, held: list[Lease], exclusive: bool) -> None:
        self.twin.reap([self.judge(lease, exclusive) for lease in held])

    def silent(self) -> list[Record]:
        """The leases that nobody renewed in time."""
        now_ms = self.twin.model.now_ms
        return [r for r in self.twin.model.in_hand() if now_ms - r.seen_ms >= LEASE_MS]

    @precondition(lambda self: self.silent())
    @rule(exclusive=st.booleans())
    def reap_silent(self, exclusive: bool) -> None:
        self.twin.reap([self.judge((r.id, r.token), exclusive) for r in self.silent()])

    @precondition(lambda self: self.twin.model.in_hand())
    @rule(data=st.data())
    def worker_is_lost_and_its_work_comes_back(self, data: st.DataObject) -> None:
        """The long way to a task that must run alone, in one rule."""
        owners = sorted({record.owner for record in self.twin.model.in_hand()})
        held = self.twin.model.in_hand(data.draw(st.sampled_from(owners)))
        self.twin.start([(record.id, record.token) for record in held])
        for record in held:
            self.twin.age(record.id, LEASE_MS + 1000)
        self.twin.reap([self.judge((r.id, r.token), exclusive=True) for r in held if r.in_hand])
        self.twin.pass_time(5 * STEP_MS)
        self.twin.promote()

    def judge(self, lease: Lease, exclusive: bool) -> Verdict:
        record = self.twin.model.tasks[lease[0]]
        lanes = {number: lane for lane, number in self.twin.model.lanes.items()}
        moved = replace(lanes[record.lane], exclusive=True) if exclusive else None
        return replace(lost(record, lease[1]), exclusive=moved, breaker=SOON)

    # operators

    @rule(
        which=st.lists(tasks, min_size=1, max_size=2), rest=st.sampled_from(["cascade", "unblock"])
    )
    def cancel(self, which: list[str], rest: Dependents) -> None:
        request = f"r{self.twin.model.now_ms}"
        words = self.twin.cancel(which, request=request, dependents=rest)
        self.sent_again(
            "cancel", words, lambda: self.twin.cancel(which, request=request, dependents=rest)
        )

    @precondition(lambda self: self.twin.view.dead)
    @rule(
        target=tasks,
        data=st.data(),
        rival=st.booleans(),
        delay=st.sampled_from([0, 5_000]),
        new=st.sampled_from([b"", b"revived"]),
    )
    def revive(self, data: st.DataObject, rival: bool, delay: int, new: bytes) -> object:
        """Perhaps after another task has taken the key that it gave up; sent twice, and then
        decided by another reviewer, who saw the same.
        """
        task = data.draw(st.sampled_from(sorted(self.twin.view.dead)))
        record = self.twin.model.tasks[task]
        other = replace(self.draft(LANES[0], 50_000_000), special=record.special)
        made = self.send([other]) if rival else multiple()
        life, request = record.life, f"v{self.twin.model.now_ms}"
        self.decide(
            lambda name: self.twin.revive(
                task, life=life, definition=new, delay_ms=delay, request=name or request
            ),
        )
        return made

    def decide(self, send: Callable[[str], list[Any]]) -> None:
        """G9: sent again, a decision says the same; another about the same life is refused."""
        said = send("")
        self.sent_again("decide", said, lambda: send(""))
        if "OK" not in said:
            return
        before = self.twin.view
        again = send("another's")
        assert all(word.startswith("DECIDED") for word in again[:1]), again
        unchanged("a second decision", before, self.twin.view)

    @precondition(lambda self: self.twin.view.dead)
    @rule(data=st.data(), others=st.lists(tasks, max_size=1))
    def discard(self, data: st.DataObject, others: list[str]) -> None:
        task = data.draw(st.sampled_from(sorted(self.twin.view.dead)))
        request = f"d{self.twin.model.now_ms}"
        self.decide(lambda name: self.twin.discard([task, *others], request=name or request))

    @precondition(lambda self: self.twin.view.dead)
    @rule(data=st.data())
    def discard_of_a_former_life(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.twin.view.dead)))
        life, before = self.twin.model.tasks[task].life, self.twin.view
        if life > 1:
            assert self.twin.discard([task], life=life - 1) == ["DECIDED:DEAD_LETTERED"]
            unchanged("a decision about a former life", before, self.twin.view)

    @precondition(lambda self: self.twin.view.dead)
    @rule(data=st.data(), off=st.sampled_from([0, 0, 1]), revived=st.booleans())
    def escalate(self, data: st.DataObject, off: int, revived: bool) -> None:
        """Sent twice, also with a life that is not its own; perhaps it is decided about at once."""
        task = data.draw(st.sampled_from(sorted(self.twin.view.dead)))
        life, request = self.twin.model.tasks[task].life - off, f"e{self.twin.model.now_ms}"
        for _ in range(2):
            self.twin.escalate(task, life=life, request=request)
        if revived:
            self.twin.revive(task, life=self.twin.model.tasks[task].life)

    @rule(task=tasks, data=st.data())
    def adjust(self, task: str, data: st.DataObject) -> None:
        match data.draw(st.sampled_from(["priority", "time", "now", "payload", "watch", "life"])):
            case "priority":
                self.twin.set_priority(task, base=data.draw(BASES), was=self.bases[task])
            case "time":
                self.twin.reschedule(task, delay_ms=data.draw(DELAYS))
            case "now":
                self.twin.run_now(task)
            case "payload":
                was = data.draw(st.sampled_from([b"else", self.twin.model.tasks[task].definition]))
                size = data.draw(st.sampled_from([10, 200, 600]))
                self.twin.edit(task, was=was, definition=b"e" * size)
            case "life":
                self.twin.revive(task, life=self.twin.model.tasks[task].life - 1)
                self.twin.discard([task])
            case _:
                self.twin.watch("watcher", [task])

    @rule(what=PAUSES, verb=st.sampled_from(["pause", "resume", "resume"]))
    def gate(self, what: str, verb: str) -> None:
        getattr(self.twin, verb)(what)

    @precondition(lambda self: self.twin.sent)
    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        """A copy of a call by hand comes late, after whatever else came."""
        self.twin.resend(data.draw(st.sampled_from(self.twin.sent[-8:])))

    @rule(at=SEATS)
    def drain(self, at: int) -> None:
        self.twin.drain(self.seats[at].consumer)

    @rule(type=st.sampled_from(["a", "b"]), verb=st.sampled_from(["open", "close"]))
    def breaker(self, type: str, verb: str) -> None:
        if verb == "open":
            self.twin.open_breaker(type, 15_000)
        else:
            self.twin.close_breaker(type)

    @precondition(lambda self: self.twin.model.slowed)
    @rule(data=st.data())
    def lift(self, data: st.DataObject) -> None:
        """Somebody lifts a slow-down, or that of something that has none any more."""
        self.twin.lift_slowdown(data.draw(st.sampled_from([*sorted(self.twin.model.slowed), "b"])))

    @precondition(lambda self: self.twin.model.outbox)
    @rule(entries=st.integers(0, 2))
    def archive_or_flush_scripts(self, entries: int) -> None:
        if entries:
            self.twin.archived(entries)
        else:
            self.twin.flush_scripts()


def machine(server: Server, scripts: Library) -> type[Machine]:
    """The machine on a server, with scripts of the caller's choice."""

    class Here(Machine):
        pass

    Here.url, Here.scripts = server.plain_url, scripts
    return Here
