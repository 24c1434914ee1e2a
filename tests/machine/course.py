"""The rules of time, of the reaper and of operators: with them the machine is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import multiple, precondition, rule

from rqueue.store.scripts import Script
from rqueue.testing.records import Lease, Record, Verdict
from tests.machine.fleet import lost
from tests.machine.hands import Dependents
from tests.machine.money_rules import MoneyMachine
from tests.machine.rules import BASES, DELAYS, LANES, SEATS, SOON
from tests.machine.twin import LEASE_MS, STEP_MS
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

    @rule(verb=st.sampled_from(["promote", "recall", "expire", "cancel", "unblock"]))
    def time_brings(self, verb: str) -> None:
        if verb == "cancel":
            self.twin.cancel([], request="rest")
        else:
            getattr(self.twin, verb)()

    @rule(held=st.lists(leases, min_size=1, max_size=2), alone=st.booleans())
    def reap_some(self, held: list[Lease], alone: bool) -> None:
        self.twin.reap([self.judge(lease, alone) for lease in held])

    def silent(self) -> list[Record]:
        """The leases that nobody renewed in time."""
        now_ms = self.twin.model.now_ms
        return [r for r in self.twin.model.in_hand() if now_ms - r.seen_ms >= LEASE_MS]

    @precondition(lambda self: self.silent())
    @rule(alone=st.booleans())
    def reap_silent(self, alone: bool) -> None:
        self.twin.reap([self.judge((r.id, r.token), alone) for r in self.silent()])

    @precondition(lambda self: self.twin.model.in_hand())
    @rule(data=st.data())
    def worker_is_lost_and_its_work_comes_back(self, data: st.DataObject) -> None:
        """The long way to a task that must run alone, in one rule."""
        owners = sorted({record.owner for record in self.twin.model.in_hand()})
        held = self.twin.model.in_hand(data.draw(st.sampled_from(owners)))
        self.twin.start([(record.id, record.token) for record in held])
        for record in held:
            self.twin.age(record.id, LEASE_MS + 1000)
        self.twin.reap([self.judge((r.id, r.token), alone=True) for r in held if r.in_hand])
        self.twin.pass_time(5 * STEP_MS)
        self.twin.promote()

    def judge(self, lease: Lease, alone: bool) -> Verdict:
        record = self.twin.model.tasks[lease[0]]
        lanes = {number: lane for lane, number in self.twin.model.lanes.items()}
        moved = replace(lanes[record.lane], alone=True) if alone else None
        return replace(lost(record, lease[1]), alone=moved, breaker=SOON)

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
        """Perhaps after another task has taken the key that it gave up; sent twice."""
        task = data.draw(st.sampled_from(sorted(self.twin.view.dead)))
        record = self.twin.model.tasks[task]
        other = replace(self.draft(LANES[0], 50_000_000), special=record.special)
        made = self.send([other]) if rival else multiple()
        life = record.life
        for _ in range(2):
            self.twin.revive(task, life=life, definition=new, delay_ms=delay)
        return made

    @precondition(lambda self: self.twin.view.dead)
    @rule(data=st.data(), others=st.lists(tasks, max_size=1))
    def discard(self, data: st.DataObject, others: list[str]) -> None:
        which = [data.draw(st.sampled_from(sorted(self.twin.view.dead))), *others]
        words = self.twin.discard(which)
        self.sent_again("discard", words, lambda: self.twin.discard(which))

    @rule(task=tasks, data=st.data())
    def adjust(self, task: str, data: st.DataObject) -> None:
        match data.draw(st.sampled_from(["priority", "time", "now", "payload", "watch", "life"])):
            case "priority":
                self.twin.set_priority(task, base=data.draw(BASES), was=self.bases[task])
            case "time":
                self.twin.reschedule(task, delay_ms=data.draw(DELAYS))
            case "now":
                request = f"n{self.twin.model.now_ms}"
                answer = self.twin.run_now(task, request=request)
                assert answer != 1 or self.twin.run_now(task, request=request) == 1, "G9"
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

    @rule(at=SEATS)
    def drain(self, at: int) -> None:
        self.twin.drain(self.seats[at].consumer)

    @rule(type=st.sampled_from(["a", "b"]), verb=st.sampled_from(["open", "close"]))
    def breaker(self, type: str, verb: str) -> None:
        if verb == "open":
            self.twin.open_breaker(type, 15_000)
        else:
            self.twin.close_breaker(type)

    @precondition(lambda self: self.twin.model.outbox)
    @rule(entries=st.integers(0, 2))
    def archive_or_flush_scripts(self, entries: int) -> None:
        if entries:
            self.twin.archived(entries)
        else:
            self.twin.flush_scripts()


def machine(server: Server, scripts: Mapping[str, Script]) -> type[Machine]:
    """The machine on a server, with scripts of the caller's choice."""

    class Here(Machine):
        pass

    Here.url, Here.scripts = server.plain_url, scripts
    return Here
