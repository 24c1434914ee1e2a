"""Simulated workers: their calls may be lost, doubled, late, and they may restart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import strategies as st

from rqueue.task.attempt.blame import PoisonRule
from rqueue.task.attempt.outcome import Failed, Lost, Reason
from rqueue.task.attempt.retry import DeadLetter, Facts, RetryLater, RetryRules, decide
from rqueue.task.lane import Offer, serves
from rqueue.task.state import State
from tests.machine.comparison import CLAIM_WAIT_MS, DELIVERY_MS
from tests.machine.invariants.guarantees import MAX_ATTEMPTS
from tests.machine.operator_moves import ComparedShard
from tests.reference.claiming import Answer, Claim
from tests.reference.records import Lease, Record, Verdict

RULES = RetryRules(max_attempts=MAX_ATTEMPTS, poison=PoisonRule())
# Whether there is an archive, and whether each call states it.
ARCHIVES = st.sampled_from([(False, False), (True, True), (True, False)])
OFFERS = (Offer.of(), Offer.of(), Offer.of(types=["a"]))


@dataclass(slots=True)
class SimulatedWorker:
    """The claims of one worker. Its calls are kept, so that any of them can arrive again."""

    number: int
    lives: int = 1
    seq: int = 0
    boxes: int = 1
    version: int = 0
    lanes: tuple[int, ...] = ()
    calls: list[Claim] = field(default_factory=list)

    @property
    def consumer(self) -> str:
        return f"w{self.number}.{self.lives}"

    @property
    def box(self) -> str:
        return f"{self.consumer}.{self.boxes}"

    def restart(self) -> None:
        """The worker died; another one replaces it with a new name and no state."""
        self.lives += 1
        self.seq = self.version = 0
        self.lanes = ()
        self.calls = []

    def read_lanes(self, shard: ComparedShard) -> None:
        """Reads the present lanes."""
        found = shard.model.lanes.items()
        offer = OFFERS[self.number]
        self.version = shard.model.version
        self.lanes = tuple(sorted(number for lane, number in found if serves(offer, lane)))

    def call(self, n: int, *, start: bool, waits: bool, begin: int | None = None) -> Claim:
        """The next claim; the caller decides whether it is sent."""
        self.seq += 1
        call = Claim(
            waiter=self.consumer,
            seq=self.seq,
            consumer=self.consumer,
            bits=f"bits{self.seq}{self.consumer}",
            n=n,
            lanes=self.lanes,
            version=self.version,
            box=self.box,
            start=start,
            wait_ms=CLAIM_WAIT_MS if waits else 0,
            delivery_ms=DELIVERY_MS,
            begin=begin,
        )
        self.calls.append(call)
        return call

    def claim(
        self, shard: ComparedShard, n: int, *, start: bool = False, waits: bool = False
    ) -> Answer:
        """Claims; if the lanes were out of date, reads them and claims again."""
        answer = shard.claim(self.call(n, start=start, waits=waits))
        if answer.word == "LANES":
            self.read_lanes(shard)
            answer = shard.claim(self.call(n, start=start, waits=waits))
        return answer


def mailed(line: str | None) -> list[Lease]:
    """The leases in a mailbox line."""
    if line is None or not line.startswith("tasks "):
        return []
    words = line.split(" ")[2:]
    return list(zip(words[::2], words[1::2], strict=True))


def failed(
    record: Record, token: str, *, permanent: bool, after_ms: int, breaker: str = ""
) -> Verdict:
    """The verdict about a failed attempt, with the rule for its breaker. The code of a retried
    attempt may still run.
    """
    outcome = Failed(Reason.ERROR, "no", permanent=permanent, retry_after=after_ms / 1000)
    return replace(verdict(record, token, outcome), breaker=breaker, owes="" if permanent else "1")


def lost(record: Record, token: str) -> Verdict:
    """The verdict of the reaper about an expired lease."""
    state = record.state if record.leased else State.RUNNING
    if record.leased and not record.started_ms:
        # Prefetched and never started.
        state = State.CLAIMED
    return verdict(record, token, Lost(state))


def verdict(record: Record, token: str, outcome: Failed | Lost) -> Verdict:
    failed_by = tuple(record.failed_by.split())
    facts = Facts(record.attempts, record.reclaims, failed_by, record.owner)
    decision = decide(outcome, facts, RULES, Random(1))
    delay_ms = round(decision.delay_sec * 1000) if isinstance(decision, RetryLater) else None
    text = f"attempt {decision.attempts} of {record.id}"
    poison = isinstance(decision, DeadLetter) and decision.poison
    return Verdict(
        record.id,
        token,
        delay_ms,
        decision.attempts,
        decision.reclaims,
        "error",
        text,
        failed_by=" ".join(decision.failed_by),
        poison="1" if poison else "",
    )
