"""The rules of producers and workers, with every fault they must bear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import redis
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
)

from rqueue.store.library import Library
from rqueue.task.lane import Lane
from rqueue.task.limits import Limit, Rules, Turns
from rqueue.task.state import State
from tests.machine.fleet import ARCHIVES, Seat, failed, mailed
from tests.machine.hands import Hands
from tests.machine.invariants import unchanged
from tests.machine.wire import Wire
from tests.reference.records import Draft, Lease, Special

KEYED = [Lane("a", 0.0, keyed=True), Lane("b", 6.0, keyed=True)]
LANES = [Lane("a", 0.0), Lane("a", 6.0), Lane("b", 0.0), *KEYED]
# Limit keys, and limits that windows of tens of seconds open in between.
KEYS = st.sampled_from("xyz")
LIMITS = st.sampled_from([
    Limit(rate=3, per_sec=15),
    Limit(at_once=3),
    Limit(type="a", rate=2, per_sec=25),
    Limit(type="a", at_once=1),
    Limit(type="b", rate=4, per_sec=45, at_once=2),
    Limit(key="*", at_once=1),
    Limit(key="*", rate=2, per_sec=25, at_once=2),
    Limit(key="x", rate=1, per_sec=35),
    Limit(key="y", type="a", at_once=2),
    Limit(key="*", type="b", rate=1, per_sec=15),
])  # fmt: skip
RULES = st.builds(
    Rules,
    st.lists(LIMITS, max_size=3, unique_by=lambda one: (one.type, one.key)).map(tuple),
    st.builds(
        Turns,
        enabled=st.sampled_from([True, True, False]),
        weights=st.sampled_from([{}, {"x": 3}, {"y": 0.5, "z": 2}]),
    ),
)
BASES = st.sampled_from([10_000_000, 50_000_000])
DELAYS = st.sampled_from([5_000, 25_000])
# Two failures in a row open a breaker for a while, a failed probe for longer.
SOON = "2 15000 45000"
ONLY_PROBES = "probe 45000"
SEATS = st.integers(0, 2)
SPECIALS = st.builds(
    Special,
    idem=st.sampled_from([None, "k1", "k2"]),
    unique=st.sampled_from(["until_done", "until_start"]),
    timeout_ms=st.sampled_from([None, 5_000]),
    trigger=st.sampled_from(["all_success", "all_success", "all_done", "one_failed"]),
)


class WorkMachine(RuleBasedStateMachine):
    """The rules. Leases are never taken out of their bundle: most of them are stale."""

    tasks = Bundle("tasks")
    leases = Bundle("leases")
    url: ClassVar[str]
    scripts: ClassVar[Library]

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.url, protocol=2)
        self.bases: dict[str, int] = {}
        self.batches: list[list[Draft]] = []
        self.seats = [Seat(number) for number in range(3)]

    def teardown(self) -> None:
        self.client.close()

    @initialize(target=tasks, archive=ARCHIVES, known=st.booleans(), rules=RULES)
    def begin(self, archive: tuple[bool, bool], known: bool, rules: Rules) -> object:
        """An empty shard, or one whose lanes are known to all."""
        there, said = archive
        wire = Wire(self.client, self.scripts)
        self.twin = Hands(wire, archive=there, said=said, rules=rules)
        if not known:
            return multiple()
        made = self.send([self.draft(lane, 50_000_000) for lane in LANES])
        for seat in self.seats:
            seat.look(self.twin)
        return made

    # the producer

    def draft(self, lane: Lane, base: int, key: str = "x") -> Draft:
        task = f"T{len(self.bases):03}"
        self.bases[task] = base
        return Draft(task, lane, base, f"def {task}".encode(), key=key if lane.keyed else "")

    @rule(
        target=tasks,
        lane=st.sampled_from(LANES),
        base=BASES,
        many=st.integers(0, 3),
        key=st.sampled_from([None, "k1", "k2"]),
        own=KEYS,
    )
    def submit(self, lane: Lane, base: int, many: int, *, key: str | None, own: str) -> object:
        first = replace(self.draft(lane, base, own), special=Special(idem=key))
        return self.send([first, *(self.draft(lane, base, own) for _ in range(many))])

    @rule(
        target=tasks,
        many=st.lists(st.tuples(st.sampled_from(KEYED), KEYS), min_size=2, max_size=6),
    )
    def submit_of_many_keys(self, many: list[tuple[Lane, str]]) -> object:
        return self.send([self.draft(lane, 50_000_000, own) for lane, own in many])

    @rule(
        target=tasks,
        data=st.data(),
        specials=st.lists(SPECIALS, min_size=1, max_size=3),
        parents=st.lists(tasks, max_size=2),
    )
    def submit_special(
        self, data: st.DataObject, specials: list[Special], parents: list[str]
    ) -> object:
        drafts: list[Draft] = []
        for special in specials:
            one = self.draft(data.draw(st.sampled_from(LANES)), data.draw(BASES), data.draw(KEYS))
            near = data.draw(st.sampled_from([(), tuple(parents), *((d.id,) for d in drafts)]))
            drafts.append(
                replace(
                    one,
                    special=self.with_deadline(data, special),
                    parents=near,
                    delay_ms=data.draw(st.sampled_from([0, 0, 5_000, 25_000])),
                    if_exists=data.draw(st.sampled_from(["keep", "replace", "debounce"])),
                )
            )
        return self.send(drafts)

    def with_deadline(self, data: st.DataObject, special: Special) -> Special:
        how: Literal["cancel", "fail"] | None
        how = data.draw(st.sampled_from([None, None, "cancel", "fail"]))
        if how is None:
            return special
        return replace(special, deadline_ms=self.twin.wire.now_ms + 15_000, on_deadline=how)

    def send(self, drafts: list[Draft]) -> object:
        self.batches.append(drafts)
        before = set(self.twin.model.tasks)
        self.twin.submit(drafts)
        return multiple(*sorted(set(self.twin.model.tasks) - before))

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches))
        again, before = all(d.id in self.twin.model.tasks for d in batch), self.twin.view
        self.twin.submit(batch)
        if again:
            unchanged("G9 submit", before, self.twin.view)

    # workers

    @rule(target=leases, at=SEATS, n=st.integers(0, 4), start=st.booleans(), parks=st.booleans())
    def claim(self, at: int, n: int, start: bool, parks: bool) -> object:
        answer = self.seats[at].claim(self.twin, n, start=start, parks=parks)
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @rule(
        target=leases,
        at=SEATS,
        held=st.lists(leases, max_size=3),
        parks=st.booleans(),
        begin=st.integers(0, 3),
    )
    def turn(self, at: int, held: list[Lease], parks: bool, begin: int) -> object:
        # A worker completes what it has started: what is only claimed, the claim may start.
        tasks = self.twin.model.tasks
        started = [lease for lease in held if tasks[lease[0]].state is not State.CLAIMED]
        rows = [(*lease, b"r") for lease in started]
        self.seats[at].look(self.twin)
        call = self.seats[at].call(3, start=True, parks=parks, begin=begin)
        words, answer = self.twin.turn(rows, call)
        before = self.twin.view
        again, same = self.twin.turn(rows, call)
        assert all(new in (old, "LOST") for old, new in zip(words, again, strict=True)), "G9"
        assert {grant.task for grant in same.grants} <= {grant.task for grant in answer.grants}
        unchanged("G9 turn", before, self.twin.view)
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @rule(target=leases, at=SEATS)
    def idle_worker_parks(self, at: int) -> object:
        answer = self.seats[at].claim(self.twin, 8, parks=True)
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @rule(target=leases, at=SEATS, data=st.data())
    def claim_that_arrives_late_or_again(self, at: int, data: st.DataObject) -> object:
        calls = self.seats[at].calls
        if not calls:
            return multiple()
        answer = self.twin.claim(data.draw(st.sampled_from(calls[-4:])))
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @precondition(lambda self: any(self.twin.model.boxes.get(s.box) for s in self.seats))
    @rule(target=leases, at=SEATS)
    def read_mailbox(self, at: int) -> object:
        return multiple(*mailed(self.twin.read_mailbox(self.seats[at].box)))

    @rule(at=SEATS, what=st.sampled_from(["mail is lost", "claim is not sent yet", "death"]))
    def mishap(self, at: int, what: str) -> None:
        seat = self.seats[at]
        if what == "mail is lost":
            self.twin.lose_mail(seat.box)
            seat.boxes += 1
        elif what == "death":
            seat.restart()
        else:
            seat.call(2, start=False, parks=True)

    @rule(
        verb=st.sampled_from(["start", "validate", "release"]),
        held=st.lists(leases, min_size=1, max_size=3),
    )
    def settle(self, verb: str, held: list[Lease]) -> None:
        words = getattr(self.twin, verb)(held)
        self.sent_again(verb, words, lambda: getattr(self.twin, verb)(held))

    @rule(held=st.lists(leases, min_size=1, max_size=3), result=st.sampled_from([b"", b"r"]))
    def complete(self, held: list[Lease], result: bytes) -> None:
        rows = [(*lease, result) for lease in held]
        words = self.twin.complete(rows)
        self.sent_again("complete", words, lambda: self.twin.complete(rows))

    @rule(
        held=st.lists(leases, min_size=1, max_size=2),
        permanent=st.booleans(),
        after=DELAYS,
        breaker=st.sampled_from(["", SOON, ONLY_PROBES]),
    )
    def fail(self, held: list[Lease], permanent: bool, after: int, breaker: str) -> None:
        tasks = self.twin.model.tasks
        rows = [
            failed(tasks[t], token, permanent=permanent, after_ms=after, breaker=breaker)
            for t, token in held
        ]
        words = self.twin.fail(rows)
        self.sent_again("fail", words, lambda: self.twin.fail(rows))

    @rule(
        held=st.lists(leases, min_size=1, max_size=2),
        delay=DELAYS,
        slow_ms=st.sampled_from([0, 4_000, 30_000]),
    )
    def park(self, held: list[Lease], delay: int, slow_ms: int) -> None:
        rows = [(*lease, delay) for lease in held]
        words = self.twin.park(rows, slow_ms)
        self.sent_again("park", words, lambda: self.twin.park(rows, slow_ms))

    @precondition(lambda self: self.twin.model.in_hand())
    @rule(verb=st.sampled_from(["start", "validate", "complete", "fail", "park"]))
    def all_settle(self, verb: str) -> None:
        """What is in hand now, with the tokens that hold it: the way forward."""
        held = self.twin.model.in_hand()
        if verb in ("start", "validate"):
            getattr(self.twin, verb)([(record.id, record.token) for record in held])
        elif verb == "park":
            self.twin.park([(record.id, record.token, 5_000) for record in held], 30_000)
        elif verb == "complete":
            self.twin.complete([(record.id, record.token, b"r") for record in held])
        else:
            self.twin.fail(
                [failed(r, r.token, permanent=True, after_ms=0, breaker=SOON) for r in held]
            )

    def sent_again(self, verb: str, words: list[str], send: Callable[[], list[str]]) -> None:
        """G9: the answer is the same (LOST where another holds it by now), and nothing moves."""
        before = self.twin.view
        again = send()
        assert all(new in (old, "LOST") for old, new in zip(words, again, strict=True)), "G9"
        unchanged(f"G9 {verb}", before, self.twin.view)

    @rule(at=SEATS, held=st.lists(leases, min_size=1, max_size=3))
    def renew(self, at: int, held: list[Lease]) -> None:
        self.twin.renew(self.seats[at].consumer, held)

    @precondition(lambda self: self.twin.model.in_hand())
    @rule()
    def all_renew(self) -> None:
        for consumer in sorted({record.owner for record in self.twin.model.in_hand()}):
            held = [(record.id, record.token) for record in self.twin.model.in_hand(consumer)]
            self.twin.renew(consumer, held)
