"""What the model keeps: a task, a DAG, and what callers hand in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from rqueue.task.state import LEASED, State

if TYPE_CHECKING:
    from rqueue.task.dag import Trigger
    from rqueue.task.lane import Lane

IfExists = Literal["keep", "replace", "debounce"]
Unique = Literal["until_start", "until_done"]
# What a task waits for besides its parents.
TIME = "@time"
# A limit: what it stands before, how many in which time in ms, how many at once; 0 is no limit.
LimitWords = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Special:
    """What a task has beyond the plain. `idem` is its idempotency key, `ext` its producer's id."""

    idem: str | None = None
    unique: Unique = "until_done"
    window_ms: int = 604_800_000
    timeout_ms: int | None = None
    deadline_ms: int | None = None
    on_deadline: Literal["cancel", "fail"] | None = None
    ext: str | None = None
    tags: tuple[str, ...] = ()
    ttl_ms: int | None = None
    trigger: Trigger = "all_success"


PLAIN = Special()


@dataclass(frozen=True, slots=True)
class Draft:
    """A task to be submitted; `base` is its priority in millionths of a point. One of a DAG has
    parents `inside` it too, and a `rank`: its part of the base that is for the critical path. One
    of a lane of keys has a `key`. Its `price` is what it is expected and allowed to cost, in
    micro-USD.
    """

    id: str
    lane: Lane
    base: int
    definition: bytes
    special: Special = PLAIN
    parents: tuple[str, ...] = ()
    delay_ms: int = 0
    at_ms: int | None = None
    if_exists: IfExists = "keep"
    inside: tuple[str, ...] = ()
    rank: int = 0
    key: str = ""
    price: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Notes:
    """What a task has said of itself; `noted` is the last note's token and number, `before` what
    its earlier lives have cost, `late` what of this life's cost the archive was told beside it,
    `recorded` what of costs and tokens is in the attempts' records, `told` the last note whose cost
    came late.
    """

    progress: bytes = b""
    checkpoint: bytes = b""
    artifacts: bytes = b""
    model: bytes = b""
    lines: list[bytes] = field(default_factory=list)
    micro_usd: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    noted: tuple[str, int] = ("", 0)
    before: int = 0
    late: int = 0
    recorded: tuple[int, int] = (0, 0)
    told: tuple[str, int | None] = ("", None)


class Debt(NamedTuple):
    """A run that lost its lease and may still say once what it cost, after its note `last`; `past`
    is the life that it was of, 0 for this one.
    """

    token: str
    last: int
    owner: str
    past: int = 0


@dataclass(slots=True)
class Record:
    """A task. Where it stands in an index follows from its state; nothing is kept twice.

    `above` are its parents in its DAG, met or not. `flags` says who has ever waited for it: "d"
    for its completion, "h" for its end. One that is
    `held` is READY and not handed out; one that is `suspended` waits for what it spawned; one that
    is `doomed` is given up when its DAG is committed, one that is `fired` waits for no parent then.
    `namesake` bore its producer's id before it. `gathering` is what it is to wait for by `gathers`,
    with the name of that wait, while the wait is told in several calls. `reserved` is what is set
    aside for it while it is in hand, below 0 what it has cost beyond that; with its worker, too,
    where that is its `own`. One that is `unpaid` is held until its DAG can pay it. `owed` are lost
    runs that may still say what they cost.
    """

    id: str
    lane: int
    score: int
    definition: bytes
    special: Special
    key: str = ""
    state: State = State.READY
    life: int = 1
    waits: set[str] = field(default_factory=set)
    parents: list[str] = field(default_factory=list)
    due_ms: int = 0
    epoch: int = 0
    token: str = ""
    owner: str = ""
    claimed_ms: int = 0
    started_ms: int = 0
    seen_ms: int = 0
    attempts: int = 0
    reclaims: int = 0
    parks: int = 0
    failed_by: str = ""
    poison: str = ""
    failures: list[str] = field(default_factory=list)
    settled: str = ""
    debounced: list[str] = field(default_factory=list)
    result: bytes = b""
    priority: int | None = None
    expires_ms: int | None = None
    created_ms: int = 0
    finished_ms: int | None = None
    reason: str = ""
    why: str | None = None
    reviewed_ms: int = 0
    resolution: str = ""
    boost: int | None = None
    notes: Notes = field(default_factory=Notes)
    steps: dict[str, bytes] = field(default_factory=dict)
    dag: str = ""
    rank: int = 0
    held: bool = False
    flags: set[str] = field(default_factory=set)
    above: list[str] = field(default_factory=list)
    suspended: Trigger | None = None
    spawned: dict[str, str] = field(default_factory=dict)
    gathering: set[str] = field(default_factory=set)
    gathers: Trigger = "all_success"
    archived: bool = False
    doomed: str = ""
    fired: bool = False
    namesake: str = ""
    price: tuple[int, int] = (0, 0)
    reserved: int | None = None
    own: bool = False
    unpaid: bool = False
    owed: list[Debt] = field(default_factory=list)

    @property
    def trigger(self) -> Trigger:
        """What it waits for its parents to do."""
        return self.suspended or self.special.trigger

    @property
    def in_hand(self) -> bool:
        return self.state in LEASED

    @property
    def waiting(self) -> bool:
        """Whether nobody holds it and it may still run."""
        return self.state in (State.READY, State.PENDING, State.RETRYING)

    def about_to_wait(self) -> set[str]:
        """What it gathers in its attempt that runs, if it does."""
        marks = {one for one in self.gathering if one.startswith("@")}
        goes_on = self.state is State.RUNNING and any(m.endswith(f" {self.token}") for m in marks)
        return self.gathering - marks if goes_on else set()

    def held_by(self, token: str) -> bool:
        return self.in_hand and self.token == token

    @property
    def discarded_ms(self) -> int | None:
        """When a reviewer gave it up, if one has."""
        is_discarded = self.state is State.CANCELLED and self.settled == "discard"
        return self.reviewed_ms if is_discarded else None

    def settled_by(self, token: str, move: str) -> bool:
        """Whether this very token ended its lease by this very move: a call sent again."""
        return self.settled == f"{move} {token}"


@dataclass(slots=True)
class Graph:
    """A DAG: how far it is as a whole, and what was said of it. Its tasks count themselves."""

    id: str
    status: str = "writing"
    created_ms: int = 0
    written_ms: int = 0
    listed_ms: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    edges: int = 0
    dropping: bool = False
    paused: bool = False
    closing: str = ""
    why: str = ""
    request: str = ""
    before: int | None = None
    escalated: int = 0
    spent: int = 0
    follow: str = ""
    refused: str = ""
    finished_ms: int | None = None
    archived: bool = False
    expires_ms: int | None = None


@dataclass(slots=True)
class Key:
    """An idempotency key: whose it is, and until when after a completion."""

    task: str
    until_ms: int | None = None


# A task and the token that holds it; a task, its life and how that ended.
Lease = tuple[str, str]
Ended = tuple[str, int, State | str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a held attempt ends as failed; no delay means dead. `breaker` is what it says to the one
    of its type, `failed_by` who has failed it, `owes` is "1" where its code may go on and say later
    what it has cost, `alone` is for reap.
    """

    task: str
    token: str
    delay_ms: int | None
    attempts: int
    reclaims: int
    reason: str
    record: str = ""
    type: str = ""
    breaker: str = ""
    failed_by: str = ""
    poison: str = ""
    owes: str = ""
    exclusive: Lane | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a lease may be renewed: CLAIMED, and RUNNING where the task does not say."""

    claim_ms: int
    timeout_ms: int
    grace_ms: int

    def running_ms(self, record: Record) -> int:
        return (record.special.timeout_ms or self.timeout_ms) + self.grace_ms


class Said(NamedTuple):
    """What a worker last said of itself, when, and until when that holds."""

    seen_ms: int
    until_ms: int
    facts: str
