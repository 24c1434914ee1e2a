"""A shard twice: the real scripts and the model, moved together and compared after each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rqueue.core.submit import Row, lanes_text, special
from rqueue.store.lanes import lane_words
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.lane import signature
from rqueue.task.limits import Rules
from tests.machine.graph_invariants import Edges
from tests.machine.invariants import Guarantees, unchanged, within_budget
from tests.machine.limit_invariants import Ceilings
from tests.machine.order_invariants import Order
from tests.machine.projection import of_model, of_server
from tests.machine.wire import KEYS, Wire, compact
from tests.machine.words import answer_of, asks, fields, place, priced
from tests.reference import claiming, passing, settling, submitting
from tests.reference.breaking import type_of
from tests.reference.conversation import Answer, Claim
from tests.reference.limits import limits_of
from tests.reference.model import Model
from tests.reference.records import Draft, Lease, Limits, Verdict
from tests.reference.rounds import line_up
from tests.reference.verbs import VERBS
from tests.reference.verbs.words import Asked

# Time passes in tens of seconds; every limit lies between two of them.
STEP_MS = 10_000
MOST_PARKS = 3
LEASE_MS, DELIVERY_MS, PARK_MS, RECHECK_MS = 35_000, 15_000, 25_000, 5_000
LIMITS = Limits(claim_ms=25_000, timeout_ms=35_000, grace_ms=10_000)
TTL_MS, MAX_LANES, KEEP, EVENTS, MANY = 86_400_000, 10, 3, 100, 1000
FOR_EVER_MS = 10**12
# Few enough for a DAG to be full now and then.
MAX_NODES = 12


Rows = Sequence[Sequence[Argument]]


class Sent(NamedTuple):
    """A call by hand that was carried out, and what it was answered."""

    verb: str
    script: str
    args: dict[str, Argument]
    rows: Rows
    reply: list[Any]


class Twin:
    """One verb, both sides; what they answer and all they hold must be the same."""

    def __init__(
        self, wire: Wire, *, archive: bool, said: bool = True, rules: Rules | None = None
    ) -> None:
        self.wire = wire
        self.rules = rules or Rules()
        # Whether each call says that there is an archive, or only who has joined one.
        self.archive = archive and said
        self.model = Model(
            archive=archive,
            max_lanes=MAX_LANES,
            max_nodes=MAX_NODES,
            keep_failures=KEEP,
            result_ttl_ms=TTL_MS,
        )
        facts = {"ttl": TTL_MS, "events": EVENTS, "max_nodes": MAX_NODES, "reviews": 0}
        self.how = compact({"archive": str(int(self.archive)), **facts})
        self.guarantees = Guarantees()
        self.edges = Edges()
        self.ceilings = Ceilings(self.rules.limits)
        self.quiet = False
        self.sent: list[Sent] = []
        wire.reset()
        if archive and not said:
            wire.run("archive/join", {"most": 0})
        self.model.now_ms = wire.now_ms
        self.view = of_server(wire.dump())

    # the frame of every step

    def step(self, verb: str, run: Callable[[], Any], expect: Callable[[], Any]) -> Any:
        """Runs a verb on both sides a moment later, and compares."""
        self.wire.now_ms += 1
        self.model.now_ms = self.wire.now_ms
        found, wanted = run(), expect()
        line_up(self.model)
        assert found == wanted, f"{verb}: server {found!r}, model {wanted!r}"
        if not self.quiet:
            self.compare(verb)
        return found

    def by_hand(
        self, verb: str, script: str, args: dict[str, Argument], rows: Rows = (), *,
        request: str = "",
    ) -> list[Any]:  # fmt: skip
        """A call that an operator makes, under a name of its own."""
        name = request or f"call-{len(self.sent)}"
        named: dict[str, Argument] = {**args, "request": name, "memo_ms": FOR_EVER_MS}
        reply = self.asked_for(verb, script, named, rows)
        done = reply[0] == "OK" and (not rows or "OK" in reply[1:])
        if done and args.get("begin") != 0:
            self.sent.append(Sent(verb, script, named, rows, reply))
        return reply

    def asked_for(
        self, verb: str, script: str, args: dict[str, Argument], rows: Rows = ()
    ) -> list[Any]:
        each = self.wire.library.moves[script].each
        asked = Asked(args, [dict(zip(each, row, strict=True)) for row in rows])
        found: list[Any] = self.step(
            verb,
            lambda: self.wire.run(script, args, rows),
            lambda: list(VERBS[script](self.model, asked)),
        )
        return found

    def resend(self, sent: Sent) -> None:
        """G9: a late copy of a call by hand says the same and changes nothing, whatever came
        between.
        """
        before = self.view
        again = self.asked_for(sent.verb, sent.script, sent.args, sent.rows)
        assert again == sent.reply, f"G9 {sent.script}: {again} after {sent.reply}"
        unchanged(f"G9 {sent.script}", before, self.view)

    def look(self) -> None:
        """From here on every step is compared."""
        self.quiet = False
        self.view = of_server(self.wire.dump())

    def compare(self, verb: str) -> None:
        before, self.view = self.view, of_server(self.wire.dump())
        differences = self.view.differences(of_model(self.model))
        assert not differences, f"after {verb}: {differences}"
        self.guarantees.check(verb, before, self.view, self.wire.now_ms)
        self.edges.check(verb, before, self.view)
        self.ceilings.check(before, self.view, self.wire.now_ms)
        specials = {task: record.special for task, record in self.model.tasks.items()}
        self.guarantees.unique(self.view, specials)

    def words(
        self, verb: str, rows: Sequence[Any], expect: Callable[[], list[str]], **args: Any
    ) -> list[str]:
        """A settle: a word for each row. G4: where all are LOST, nothing has changed."""
        before = self.view
        skip = 1 if verb in ("start", "validate") else 2
        words: list[str] = self.step(
            verb, lambda: self.wire.run(f"task/{verb}", args, rows)[skip:], expect
        )
        if set(words) <= {"LOST", "HELD"}:
            unchanged(f"G4 {verb}", before, self.view)
        return words

    def pass_time(self, ms: int) -> None:
        """Time goes by on both sides; leases age with it."""
        self.wire.now_ms += ms
        self.model.now_ms = self.wire.now_ms
        for record in self.model.in_hand():
            self.age(record.id, self.model.now_ms - record.seen_ms)
        # Keys whose time has come count as open.
        self.view = of_server(self.wire.dump())

    def age(self, task: str, idle_ms: int) -> None:
        """A lease looks as if nobody had renewed it for so long."""
        record = self.model.tasks[task]
        record.seen_ms = self.model.now_ms - idle_ms
        entry: Any = self.wire.client.hget(KEYS.task(task), "entry")
        self.wire.age(entry.decode(), record.owner, idle_ms)

    # the verbs

    def submit(self, drafts: Sequence[Draft]) -> dict[int, tuple[str, str]]:
        kinds = [priced(draft) for draft in drafts]
        lanes = list(dict.fromkeys(kinds))
        rows = [
            Row(
                draft.id,
                place(draft, lanes.index(kind) + 1),
                draft.definition,
                special(*asks(draft)),
            )
            for draft, kind in zip(drafts, kinds, strict=True)
        ]
        args: dict[str, Argument] = {
            "lanes": lanes_text(tuple(lanes)),
            "max_lanes": MAX_LANES,
            "tries": MANY,
            "how": self.how,
            "who": "",
            "most": "",
        }

        def run() -> dict[int, tuple[str, str]]:
            reply = self.wire.run("task/submit", args, rows)[2:]
            return {reply[at]: (reply[at + 1], reply[at + 2]) for at in range(0, len(reply), 3)}

        found: dict[int, tuple[str, str]] = self.step(
            "submit", run, lambda: submitting.submit(self.model, drafts)
        )
        return found

    def turn(self, rows: Sequence[tuple[str, str, bytes]], call: Claim) -> tuple[list[str], Answer]:
        """Completes and claims in one call."""
        call = self.ruled(call)
        args = {
            **self.asked(call),
            "archive": int(self.archive),
            "ttl": TTL_MS,
            "limit": MANY,
            "tries": MANY,
            "begin": call.n if call.begin is None else call.begin,
            "events": EVENTS,
        }

        def run() -> tuple[list[str], Answer]:
            _, words, claimed, _ = self.wire.run("task/exchange", args, rows)
            return words[2:], answer_of(claimed)

        found: tuple[list[str], Answer] = self.step(
            "turn",
            run,
            lambda: (settling.complete(self.model, rows), claiming.claim(self.model, call)),
        )
        return found

    def asked(self, call: Claim) -> dict[str, Any]:
        """A claim as the scripts read it."""
        lanes = list(self.lane_words(call).values())
        return {
            **{name: getattr(call, name) for name in ("waiter", "seq", "consumer", "bits", "n")},
            **{name: getattr(call, name) for name in ("version", "box", "wait_ms", "delivery_ms")},
            "lanes": compact(lanes) or "[]",
            "profile": "-".join(map(str, call.lanes)) or "none",
        }

    def lane_words(self, call: Claim) -> dict[int, list[Any]]:
        """The lanes of a claim by their numbers."""
        lanes = {number: lane for lane, number in self.model.lanes.items()}
        return {number: lane_words(number, lanes[number], self.rules) for number in call.lanes}

    def ruled(self, call: Claim) -> Claim:
        """A claim with the limits that stand before its lanes."""
        found = self.lane_words(call).items()
        keys = {number: words[5] for number, words in found if number < 0}
        return replace(call, limits=tuple(limits_of(self.rules.limits)), keys=keys)

    def claim(self, call: Claim) -> Answer:
        call = self.ruled(call)
        args = {**self.asked(call), "start": int(call.start), "memo_ms": 0}
        before, known = self.view, call.waiter in self.model.waiters
        last = self.model.waiters[call.waiter].claim.seq if known else 0
        answer: Answer = self.step(
            "claim",
            lambda: answer_of(self.wire.run("task/claim", args)),
            lambda: claiming.claim(self.model, call),
        )
        if self.quiet:
            return answer
        if call.seq <= last or answer.word == "LANES":
            unchanged("G9 claim", before, self.view)
        elif not any(
            grant.task == self.model.exclusive.get(call.consumer) for grant in answer.grants
        ):
            fresh = [g.task for g in answer.grants if before.tasks[g.task]["state"] == "READY"]
            Order(call, fresh, self.view, self.wire.now_ms, self.rules).check()
            within_budget(fresh, self.view)
        return answer

    def start(self, leases: Sequence[Lease]) -> list[str]:
        return self.words("start", leases, lambda: settling.start(self.model, leases))

    def validate(self, leases: Sequence[Lease]) -> list[str]:
        return self.words("validate", leases, lambda: settling.validate(self.model, leases))

    def renew(self, consumer: str, leases: Sequence[Lease]) -> list[str]:
        return self.words(
            "renew",
            leases,
            lambda: settling.renew(self.model, consumer, leases, limits=LIMITS),
            consumer=consumer,
            claim_ms=LIMITS.claim_ms,
            timeout_ms=LIMITS.timeout_ms,
            grace_ms=LIMITS.grace_ms,
        )

    def complete(self, rows: Sequence[tuple[str, str, bytes]]) -> list[str]:
        return self.words(
            "complete",
            rows,
            lambda: settling.complete(self.model, rows),
            archive=int(self.archive),
            ttl=TTL_MS,
            limit=MANY,
            tries=MANY,
            events=EVENTS,
        )

    def typed(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Verdicts with the types of their tasks."""
        tasks = self.model.tasks
        return [replace(v, type=type_of(self.model, tasks[v.task])) for v in verdicts]

    def fail(self, verdicts: Sequence[Verdict]) -> list[str]:
        verdicts = self.typed(verdicts)
        return self.words(
            "fail",
            [(*fields(verdict), verdict.owes) for verdict in verdicts],
            lambda: settling.fail(self.model, verdicts),
            archive=int(self.archive),
            keep=KEEP,
            events=EVENTS,
            **ANSWER_LIMITS,
        )

    def park(self, leases: Sequence[tuple[str, str, int]], slow_ms: int = 0) -> list[str]:
        tasks = self.model.tasks
        types = [type_of(self.model, tasks[task]) for task, *_ in leases]
        rows = [(*lease, type, slow_ms) for lease, type in zip(leases, types, strict=True)]
        return self.words(
            "park",
            [(*row[:3], "rate_limit", *row[3:]) for row in rows],
            lambda: settling.park(self.model, rows, MOST_PARKS),
            events=EVENTS,
            parks=MOST_PARKS,
            **ANSWER_LIMITS,
        )

    def release(self, leases: Sequence[Lease]) -> list[str]:
        return self.words(
            "release", leases, lambda: settling.release(self.model, leases), **ANSWER_LIMITS
        )

    def reap(self, verdicts: Sequence[Verdict]) -> list[str]:
        """G6: what was taken had been silent for a lease, by the server's own count."""
        verdicts = self.typed(verdicts)
        idle = {verdict.task: self.idle(verdict.task) for verdict in verdicts}
        rows = [
            (*fields(verdict), signature(verdict.exclusive) if verdict.exclusive else "")
            for verdict in verdicts
        ]
        words = self.words(
            "reap",
            rows,
            lambda: passing.reap(self.model, verdicts, idle_ms=LEASE_MS),
            idle_ms=LEASE_MS,
            archive=int(self.archive),
            keep=KEEP,
            events=EVENTS,
            tries=MANY,
            max_lanes=MAX_LANES,
        )
        for verdict, word in zip(verdicts, words, strict=True):
            assert word == "HELD" or idle[verdict.task] >= LEASE_MS, f"G6: {verdict.task}"
        return words

    def idle(self, task: str) -> int:
        """How long the server has not heard of a task's holder; -1 without one."""
        entry = self.wire.client.hget(KEYS.task(task), "entry")
        if entry is None or not self.model.tasks[task].in_hand:
            return -1
        held: Any = self.wire.client.xpending_range(KEYS.ready(), "workers", entry, entry, 1)
        return int(held[0]["time_since_delivered"]) if held else -1
