"""Workers as the machine plays them: conversations that are lost, doubled, late and restarted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import strategies as st

from rqueue.task.attempt.blame import PoisonRule
from rqueue.task.attempt.outcome import Failed, Lost, Reason
from rqueue.task.attempt.retry import DeadLetter, Facts, RetryLater, RetryRules, decide
from rqueue.task.lane import Offer, serves
from rqueue.task.state import State
from tests.machine.hands import Hands
from tests.machine.invariants import MAX_ATTEMPTS
from tests.machine.twin import DELIVERY_MS, PARK_MS
from tests.reference.conversation import Answer, Claim
from tests.reference.records import Lease, Record, Verdict

RULES = RetryRules(max_attempts=MAX_ATTEMPTS, poison=PoisonRule())
# Whether there is an archive, and whether whoever ends a task says so.
ARCHIVES = st.sampled_from([(False, False), (True, True), (True, False)])
OFFERS = (Offer.of(), Offer.of(), Offer.of(types=["a"]))


@dataclass(slots=True)
class Seat:
    """One conversation. Its calls are kept, so that any of them can arrive again."""

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
        """The worker died; another takes its place under a new name and knows nothing."""
        self.lives += 1
        self.seq = self.version = 0
        self.lanes = ()
        self.calls = []

    def look(self, twin: Hands) -> None:
        """Reads the lanes as they are now."""
        found = twin.model.lanes.items()
        offer = OFFERS[self.number]
        self.version = twin.model.version
        self.lanes = tuple(sorted(number for lane, number in found if serves(offer, lane)))

    def call(self, n: int, *, start: bool, parks: bool, begin: int | None = None) -> Claim:
        """The next claim of the conversation; whether it is sent is the caller's business."""
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
            wait_ms=PARK_MS if parks else 0,
            delivery_ms=DELIVERY_MS,
            begin=begin,
        )
        self.calls.append(call)
        return call

    def claim(self, twin: Hands, n: int, *, start: bool = False, parks: bool = False) -> Answer:
        """Claims; where the lanes were out of date, looks and claims again."""
        answer = twin.claim(self.call(n, start=start, parks=parks))
        if answer.word == "LANES":
            self.look(twin)
            answer = twin.claim(self.call(n, start=start, parks=parks))
        return answer


def mailed(line: str | None) -> list[Lease]:
    """The leases that a line of mail names."""
    if line is None or not line.startswith("tasks "):
        return []
    words = line.split(" ")[2:]
    return list(zip(words[::2], words[1::2], strict=True))


def failed(
    record: Record, token: str, *, permanent: bool, after_ms: int, breaker: str = ""
) -> Verdict:
    """What a worker decides about an attempt that failed, and what that says to a breaker. The code
    of one that is tried again may go on.
    """
    outcome = Failed(Reason.ERROR, "no", permanent=permanent, retry_after=after_ms / 1000)
    return replace(verdict(record, token, outcome), breaker=breaker, owes="" if permanent else "1")


def lost(record: Record, token: str) -> Verdict:
    """What the reaper decides about a lease that fell silent, as it saw it."""
    state = record.state if record.in_hand else State.RUNNING
    if record.in_hand and not record.started_ms:
        # Handed out ahead of a free slot, and never begun.
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
