"""A shard on a server and in the model: each move runs on both, and results and states are
compared.
"""

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
from tests.machine.encoding import answer_of, fields, options_of, place, priced
from tests.machine.invariants.dags import DagInvariants
from tests.machine.invariants.guarantees import Guarantees, unchanged, within_budget
from tests.machine.invariants.limits import LimitInvariants
from tests.machine.invariants.order import ClaimOrder
from tests.machine.server_shard import KEYS, ServerShard, compact
from tests.machine.views.shard import model_view, server_view
from tests.reference import claiming, settling, submitting, timers
from tests.reference.breakers import type_of
from tests.reference.claiming import Answer, Claim
from tests.reference.gates import limits_of
from tests.reference.model import Model
from tests.reference.moves import MODEL_MOVES
from tests.reference.moves.call import Call
from tests.reference.records import Draft, Lease, Limits, Verdict
from tests.reference.turns import update_turns

# The clock moves in tens of seconds; every limit is between two steps.
STEP_MS = 10_000
MOST_PARKS = 3
LEASE_MS, DELIVERY_MS, CLAIM_WAIT_MS, RECHECK_MS = 35_000, 15_000, 25_000, 5_000
LIMITS = Limits(claim_ms=25_000, timeout_ms=35_000, grace_ms=10_000)
TTL_MS, MAX_LANES, DUMP_ALL, EVENTS, MANY = 86_400_000, 10, 3, 100, 1000
FOR_EVER_MS = 10**12
# Small enough that DAGs become full sometimes.
MAX_NODES = 12


Rows = Sequence[Sequence[Argument]]


class SentCall(NamedTuple):
    """A call of an operator that was carried out, and its reply."""

    verb: str
    move: str
    args: dict[str, Argument]
    rows: Rows
    reply: list[Any]


class Comparison:
    """Runs each move on both sides; replies and states must be equal."""

    def __init__(
        self,
        server_shard: ServerShard,
        *,
        archive: bool,
        in_each_call: bool = True,
        rules: Rules | None = None,
    ) -> None:
        self.server_shard = server_shard
        self.rules = rules or Rules()
        # Whether each call states that there is an archive, or it was joined before.
        self.archive = archive and in_each_call
        self.model = Model(
            archive=archive,
            max_lanes=MAX_LANES,
            max_nodes=MAX_NODES,
            keep_failures=DUMP_ALL,
            result_ttl_ms=TTL_MS,
        )
        facts = {"ttl": TTL_MS, "events": EVENTS, "max_nodes": MAX_NODES, "reviews": 0}
        self.how = compact({"archive": str(int(self.archive)), **facts})
        self.guarantees = Guarantees()
        self.dag_invariants = DagInvariants()
        self.limit_invariants = LimitInvariants(self.rules.limits)
        self.quiet = False
        self.sent: list[SentCall] = []
        server_shard.reset()
        if archive and not in_each_call:
            server_shard.run("archive/join", {"most": 0})
        self.model.now_ms = server_shard.now_ms
        self.view = server_view(server_shard.dump())

    # comparison of each step

    def step(self, verb: str, run: Callable[[], Any], expect: Callable[[], Any]) -> Any:
        """Runs a move on both sides, 1 ms later, and compares."""
        self.server_shard.now_ms += 1
        self.model.now_ms = self.server_shard.now_ms
        found, wanted = run(), expect()
        update_turns(self.model)
        assert found == wanted, f"{verb}: server {found!r}, model {wanted!r}"
        if not self.quiet:
            self.compare(verb)
        return found

    def operator_call(
        self, verb: str, move: str, args: dict[str, Argument], rows: Rows = (), *,
        request: str = "",
    ) -> list[Any]:  # fmt: skip
        """A call of an operator, under a name of its own."""
        name = request or f"call-{len(self.sent)}"
        named: dict[str, Argument] = {**args, "request": name, "memo_ms": FOR_EVER_MS}
        reply = self.run_move(verb, move, named, rows)
        done = reply[0] == "OK" and (not rows or "OK" in reply[1:])
        if done and args.get("begin") != 0:
            self.sent.append(SentCall(verb, move, named, rows, reply))
        return reply

    def run_move(
        self, verb: str, move: str, args: dict[str, Argument], rows: Rows = ()
    ) -> list[Any]:
        each = self.server_shard.library.moves[move].each
        call = Call(args, [dict(zip(each, row, strict=True)) for row in rows])
        found: list[Any] = self.step(
            verb,
            lambda: self.server_shard.run(move, args, rows),
            lambda: list(MODEL_MOVES[move](self.model, call)),
        )
        return found

    def resend(self, sent: SentCall) -> None:
        """G9: a late copy of an operator's call returns the same and changes nothing."""
        before = self.view
        again = self.run_move(sent.verb, sent.move, sent.args, sent.rows)
        assert again == sent.reply, f"G9 {sent.move}: {again} after {sent.reply}"
        unchanged(f"G9 {sent.move}", before, self.view)

    def start_comparing(self) -> None:
        """Compares every step from here on."""
        self.quiet = False
        self.view = server_view(self.server_shard.dump())

    def compare(self, verb: str) -> None:
        before, self.view = self.view, server_view(self.server_shard.dump())
        differences = self.view.differences(model_view(self.model))
        assert not differences, f"after {verb}: {differences}"
        self.guarantees.check(verb, before, self.view, self.server_shard.now_ms)
        self.dag_invariants.check(verb, before, self.view)
        self.limit_invariants.check(before, self.view, self.server_shard.now_ms)
        specials = {task: record.special for task, record in self.model.tasks.items()}
        self.guarantees.unique(self.view, specials)

    def settle(
        self, verb: str, rows: Sequence[Any], expect: Callable[[], list[str]], **args: Any
    ) -> list[str]:
        """Moves several leases; returns a word for each row. G4: where all are LOST, nothing has
        changed.
        """
        before = self.view
        skip = 1 if verb in ("start", "validate") else 2
        words: list[str] = self.step(
            verb, lambda: self.server_shard.run(f"task/{verb}", args, rows)[skip:], expect
        )
        if set(words) <= {"LOST", "HELD"}:
            unchanged(f"G4 {verb}", before, self.view)
        return words

    def pass_time(self, ms: int) -> None:
        """Advances the clock on both sides; leases age with it."""
        self.server_shard.now_ms += ms
        self.model.now_ms = self.server_shard.now_ms
        for record in self.model.leased():
            self.age(record.id, self.model.now_ms - record.seen_ms)
        # Tenants whose time has come count as open.
        self.view = server_view(self.server_shard.dump())

    def age(self, task: str, idle_ms: int) -> None:
        """Ages a lease as if it had not been renewed for that time."""
        record = self.model.tasks[task]
        record.seen_ms = self.model.now_ms - idle_ms
        entry: Any = self.server_shard.client.hget(KEYS.task(task), "entry")
        self.server_shard.age(entry.decode(), record.owner, idle_ms)

    # moves of producers and workers

    def submit(self, drafts: Sequence[Draft]) -> dict[int, tuple[str, str]]:
        kinds = [priced(draft) for draft in drafts]
        lanes = list(dict.fromkeys(kinds))
        rows = [
            Row(
                draft.id,
                place(draft, lanes.index(kind) + 1),
                draft.definition,
                special(*options_of(draft)),
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
            reply = self.server_shard.run("task/submit", args, rows)[2:]
            return {reply[at]: (reply[at + 1], reply[at + 2]) for at in range(0, len(reply), 3)}

        found: dict[int, tuple[str, str]] = self.step(
            "submit", run, lambda: submitting.submit(self.model, drafts)
        )
        return found

    def exchange(
        self, rows: Sequence[tuple[str, str, bytes]], call: Claim
    ) -> tuple[list[str], Answer]:
        """Completes and claims in one call."""
        call = self.with_limits(call)
        args = {
            **self.claim_arguments(call),
            "archive": int(self.archive),
            "ttl": TTL_MS,
            "limit": MANY,
            "tries": MANY,
            "begin": call.n if call.begin is None else call.begin,
            "events": EVENTS,
        }

        def run() -> tuple[list[str], Answer]:
            _, words, claimed, _ = self.server_shard.run("task/exchange", args, rows)
            return words[2:], answer_of(claimed)

        found: tuple[list[str], Answer] = self.step(
            "exchange",
            run,
            lambda: (settling.complete(self.model, rows), claiming.claim(self.model, call)),
        )
        return found

    def claim_arguments(self, call: Claim) -> dict[str, Any]:
        """The arguments of a claim."""
        lanes = list(self.lane_words(call).values())
        return {
            **{name: getattr(call, name) for name in ("waiter", "seq", "consumer", "bits", "n")},
            **{name: getattr(call, name) for name in ("version", "box", "wait_ms", "delivery_ms")},
            "lanes": compact(lanes) or "[]",
            "profile": "-".join(map(str, call.lanes)) or "none",
        }

    def lane_words(self, call: Claim) -> dict[int, list[Any]]:
        """The lanes of a claim by number."""
        lanes = {number: lane for lane, number in self.model.lanes.items()}
        return {number: lane_words(number, lanes[number], self.rules) for number in call.lanes}

    def with_limits(self, call: Claim) -> Claim:
        """A claim with the limits of its lanes."""
        found = self.lane_words(call).items()
        rules = {number: words[5] for number, words in found if number < 0}
        return replace(call, limits=tuple(limits_of(self.rules.limits)), tenant_rules=rules)

    def claim(self, call: Claim) -> Answer:
        call = self.with_limits(call)
        args = {**self.claim_arguments(call), "start": int(call.start), "memo_ms": 0}
        before, known = self.view, call.waiter in self.model.waiters
        last = self.model.waiters[call.waiter].claim.seq if known else 0
        answer: Answer = self.step(
            "claim",
            lambda: answer_of(self.server_shard.run("task/claim", args)),
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
            ClaimOrder(call, fresh, self.view, self.server_shard.now_ms, self.rules).check()
            within_budget(fresh, self.view)
        return answer

    def start(self, leases: Sequence[Lease]) -> list[str]:
        return self.settle("start", leases, lambda: settling.start(self.model, leases))

    def validate(self, leases: Sequence[Lease]) -> list[str]:
        return self.settle("validate", leases, lambda: settling.validate(self.model, leases))

    def renew(self, consumer: str, leases: Sequence[Lease]) -> list[str]:
        return self.settle(
            "renew",
            leases,
            lambda: settling.renew(self.model, consumer, leases, limits=LIMITS),
            consumer=consumer,
            claim_ms=LIMITS.claim_ms,
            timeout_ms=LIMITS.timeout_ms,
            grace_ms=LIMITS.grace_ms,
        )

    def complete(self, rows: Sequence[tuple[str, str, bytes]]) -> list[str]:
        return self.settle(
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
        return self.settle(
            "fail",
            [(*fields(verdict), verdict.owes) for verdict in verdicts],
            lambda: settling.fail(self.model, verdicts),
            archive=int(self.archive),
            keep=DUMP_ALL,
            events=EVENTS,
            **ANSWER_LIMITS,
        )

    def park(self, leases: Sequence[tuple[str, str, int]], slow_ms: int = 0) -> list[str]:
        tasks = self.model.tasks
        types = [type_of(self.model, tasks[task]) for task, *_ in leases]
        rows = [(*lease, type, slow_ms) for lease, type in zip(leases, types, strict=True)]
        return self.settle(
            "park",
            [(*row[:3], "rate_limit", *row[3:]) for row in rows],
            lambda: settling.park(self.model, rows, MOST_PARKS),
            events=EVENTS,
            parks=MOST_PARKS,
            **ANSWER_LIMITS,
        )

    def release(self, leases: Sequence[Lease]) -> list[str]:
        return self.settle(
            "release", leases, lambda: settling.release(self.model, leases), **ANSWER_LIMITS
        )

    def reap(self, verdicts: Sequence[Verdict]) -> list[str]:
        """G6: a reaped lease was not renewed for a lease time, as the server measures it."""
        verdicts = self.typed(verdicts)
        idle = {verdict.task: self.idle(verdict.task) for verdict in verdicts}
        rows = [
            (*fields(verdict), signature(verdict.exclusive) if verdict.exclusive else "")
            for verdict in verdicts
        ]
        words = self.settle(
            "reap",
            rows,
            lambda: timers.reap(self.model, verdicts, idle_ms=LEASE_MS),
            idle_ms=LEASE_MS,
            archive=int(self.archive),
            keep=DUMP_ALL,
            events=EVENTS,
            tries=MANY,
            max_lanes=MAX_LANES,
        )
        for verdict, word in zip(verdicts, words, strict=True):
            assert word == "HELD" or idle[verdict.task] >= LEASE_MS, f"G6: {verdict.task}"
        return words

    def idle(self, task: str) -> int:
        """How long the server has not seen a renewal of a task; -1 without a lease."""
        entry = self.server_shard.client.hget(KEYS.task(task), "entry")
        if entry is None or not self.model.tasks[task].leased:
            return -1
        held: Any = self.server_shard.client.xpending_range(
            KEYS.ready(), "workers", entry, entry, 1
        )
        return int(held[0]["time_since_delivered"]) if held else -1
