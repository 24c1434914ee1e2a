"""Rules of producers and workers, with every fault they must tolerate."""

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
from tests.machine.invariants.guarantees import unchanged
from tests.machine.operator_moves import ComparedShard
from tests.machine.server_shard import ServerShard
from tests.machine.workers import ARCHIVES, SimulatedWorker, failed, mailed
from tests.reference.records import Draft, Lease, Special

KEYED = [Lane("a", 0.0, keyed=True), Lane("b", 6.0, keyed=True)]
LANES = [Lane("a", 0.0), Lane("a", 6.0), Lane("b", 0.0), *KEYED]
# Tenants, and limits whose windows open after tens of seconds.
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
# Two failures in a row open a breaker; a failed probe opens it for longer.
BREAKER_RULE = "2 15000 45000"
PROBE_RULE = "probe 45000"
WORKERS = st.integers(0, 2)
SPECIALS = st.builds(
    Special,
    idem=st.sampled_from([None, "k1", "k2"]),
    unique=st.sampled_from(["until_done", "until_start"]),
    timeout_ms=st.sampled_from([None, 5_000]),
    trigger=st.sampled_from(["all_success", "all_success", "all_done", "one_failed"]),
)


class WorkMachine(RuleBasedStateMachine):
    """The rules. Leases are never removed from their bundle: most of them are stale."""

    tasks = Bundle("tasks")
    leases = Bundle("leases")
    url: ClassVar[str]
    library: ClassVar[Library]

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.url, protocol=2)
        self.bases: dict[str, int] = {}
        self.batches: list[list[Draft]] = []
        self.workers = [SimulatedWorker(number) for number in range(3)]

    def teardown(self) -> None:
        self.client.close()

    @initialize(target=tasks, archive=ARCHIVES, known=st.booleans(), rules=RULES)
    def begin(self, archive: tuple[bool, bool], known: bool, rules: Rules) -> object:
        """An empty shard, or one whose lanes are known to all workers."""
        exists, in_each_call = archive
        server_shard = ServerShard(self.client, self.library)
        self.shard = ComparedShard(
            server_shard, archive=exists, in_each_call=in_each_call, rules=rules
        )
        if not known:
            return multiple()
        made = self.send([self.draft(lane, 50_000_000) for lane in LANES])
        for worker in self.workers:
            worker.read_lanes(self.shard)
        return made

    # the producer

    def draft(self, lane: Lane, base: int, key: str = "x") -> Draft:
        task = f"T{len(self.bases):03}"
        self.bases[task] = base
        return Draft(task, lane, base, f"def {task}".encode(), tenant=key if lane.keyed else "")

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
        return replace(
            special, deadline_ms=self.shard.server_shard.now_ms + 15_000, on_deadline=how
        )

    def send(self, drafts: list[Draft]) -> object:
        self.batches.append(drafts)
        before = set(self.shard.model.tasks)
        self.shard.submit(drafts)
        return multiple(*sorted(set(self.shard.model.tasks) - before))

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches))
        again, before = all(d.id in self.shard.model.tasks for d in batch), self.shard.view
        self.shard.submit(batch)
        if again:
            unchanged("G9 submit", before, self.shard.view)

    # workers

    @rule(target=leases, at=WORKERS, n=st.integers(0, 4), start=st.booleans(), waits=st.booleans())
    def claim(self, at: int, n: int, start: bool, waits: bool) -> object:
        answer = self.workers[at].claim(self.shard, n, start=start, waits=waits)
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @rule(
        target=leases,
        at=WORKERS,
        held=st.lists(leases, max_size=3),
        waits=st.booleans(),
        begin=st.integers(0, 3),
    )
    def exchange(self, at: int, held: list[Lease], waits: bool, begin: int) -> object:
        # A worker completes started tasks; the claim may start those that are only claimed.
        tasks = self.shard.model.tasks
        started = [lease for lease in held if tasks[lease[0]].state is not State.CLAIMED]
        rows = [(*lease, b"r") for lease in started]
        self.workers[at].read_lanes(self.shard)
        call = self.workers[at].call(3, start=True, waits=waits, begin=begin)
        words, answer = self.shard.exchange(rows, call)
        before = self.shard.view
        again, same = self.shard.exchange(rows, call)
        assert all(new in (old, "LOST") for old, new in zip(words, again, strict=True)), "G9"
        assert {grant.task for grant in same.grants} <= {grant.task for grant in answer.grants}
        unchanged("G9 exchange", before, self.shard.view)
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @rule(target=leases, at=WORKERS)
    def idle_worker_waits(self, at: int) -> object:
        answer = self.workers[at].claim(self.shard, 8, waits=True)
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @rule(target=leases, at=WORKERS, data=st.data())
    def claim_that_arrives_late_or_again(self, at: int, data: st.DataObject) -> object:
        calls = self.workers[at].calls
        if not calls:
            return multiple()
        answer = self.shard.claim(data.draw(st.sampled_from(calls[-4:])))
        return multiple(*((grant.task, grant.token) for grant in answer.grants))

    @precondition(lambda self: any(self.shard.model.mailboxes.get(s.box) for s in self.workers))
    @rule(target=leases, at=WORKERS)
    def read_mailbox(self, at: int) -> object:
        return multiple(*mailed(self.shard.read_mailbox(self.workers[at].box)))

    @rule(at=WORKERS, what=st.sampled_from(["mail is lost", "claim is not sent yet", "death"]))
    def fault(self, at: int, what: str) -> None:
        worker = self.workers[at]
        if what == "mail is lost":
            self.shard.lose_mail(worker.box)
            worker.boxes += 1
        elif what == "death":
            worker.restart()
        else:
            worker.call(2, start=False, waits=True)

    @rule(
        verb=st.sampled_from(["start", "validate", "release"]),
        held=st.lists(leases, min_size=1, max_size=3),
    )
    def settle(self, verb: str, held: list[Lease]) -> None:
        words = getattr(self.shard, verb)(held)
        self.sent_again(verb, words, lambda: getattr(self.shard, verb)(held))

    @rule(held=st.lists(leases, min_size=1, max_size=3), result=st.sampled_from([b"", b"r"]))
    def complete(self, held: list[Lease], result: bytes) -> None:
        rows = [(*lease, result) for lease in held]
        words = self.shard.complete(rows)
        self.sent_again("complete", words, lambda: self.shard.complete(rows))

    @rule(
        held=st.lists(leases, min_size=1, max_size=2),
        permanent=st.booleans(),
        after=DELAYS,
        breaker=st.sampled_from(["", BREAKER_RULE, PROBE_RULE]),
    )
    def fail(self, held: list[Lease], permanent: bool, after: int, breaker: str) -> None:
        tasks = self.shard.model.tasks
        rows = [
            failed(tasks[t], token, permanent=permanent, after_ms=after, breaker=breaker)
            for t, token in held
        ]
        words = self.shard.fail(rows)
        self.sent_again("fail", words, lambda: self.shard.fail(rows))

    @rule(
        held=st.lists(leases, min_size=1, max_size=2),
        delay=DELAYS,
        slow_ms=st.sampled_from([0, 4_000, 30_000]),
    )
    def park(self, held: list[Lease], delay: int, slow_ms: int) -> None:
        rows = [(*lease, delay) for lease in held]
        words = self.shard.park(rows, slow_ms)
        self.sent_again("park", words, lambda: self.shard.park(rows, slow_ms))

    @precondition(lambda self: self.shard.model.leased())
    @rule(verb=st.sampled_from(["start", "validate", "complete", "fail", "park"]))
    def settle_all(self, verb: str) -> None:
        """Settles all present leases with their own tokens."""
        held = self.shard.model.leased()
        if verb in ("start", "validate"):
            getattr(self.shard, verb)([(record.id, record.token) for record in held])
        elif verb == "park":
            self.shard.park([(record.id, record.token, 5_000) for record in held], 30_000)
        elif verb == "complete":
            self.shard.complete([(record.id, record.token, b"r") for record in held])
        else:
            self.shard.fail(
                [failed(r, r.token, permanent=True, after_ms=0, breaker=BREAKER_RULE) for r in held]
            )

    def sent_again(self, verb: str, words: list[str], send: Callable[[], list[str]]) -> None:
        """G9: a repeated call returns the same (LOST where another holds the lease by now) and
        changes nothing.
        """
        before = self.shard.view
        again = send()
        assert all(new in (old, "LOST") for old, new in zip(words, again, strict=True)), "G9"
        unchanged(f"G9 {verb}", before, self.shard.view)

    @rule(at=WORKERS, held=st.lists(leases, min_size=1, max_size=3))
    def renew(self, at: int, held: list[Lease]) -> None:
        self.shard.renew(self.workers[at].consumer, held)

    @precondition(lambda self: self.shard.model.leased())
    @rule()
    def renew_all(self) -> None:
        for consumer in sorted({record.owner for record in self.shard.model.leased()}):
            held = [(record.id, record.token) for record in self.shard.model.leased(consumer)]
            self.shard.renew(consumer, held)
