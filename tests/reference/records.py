"""The records of the model: tasks, DAGs, drafts, verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from rqueue.task.state import LEASED, State

if TYPE_CHECKING:
    from rqueue.task.dag import Trigger
    from rqueue.task.lane import Lane

IfExists = Literal["keep", "replace", "debounce"]
Unique = Literal["until_start", "until_done"]
# The dependency of a delayed task.
TIME = "@time"
# A limit: its scope, a rate and its window in ms, and a number at once; 0 is unlimited.
LimitWords = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Special:
    """Options beyond those of a plain task. `idem` is its idempotency key, `ext` its
    external id.
    """

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
    """A task to be submitted; `base` is its priority in millionths of a point. A task of a DAG also
    has dependencies `inside` it and a `rank`: the part of the base for the critical path. `price`
    is the estimated and the highest permitted cost in micro-USD.
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
    tenant: str = ""
    price: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Notes:
    """What a task has reported. `last_note` is the token and number of the last report, `before`
    the cost of earlier lives, `late` the cost of this life that was archived separately, `recorded`
    the costs and tokens in the attempts' records, `last_late` the last report of a late cost.
    """

    progress: bytes = b""
    checkpoint: bytes = b""
    artifacts: bytes = b""
    model: bytes = b""
    lane_turns: list[bytes] = field(default_factory=list)
    micro_usd: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    last_note: tuple[str, int] = ("", 0)
    before: int = 0
    late: int = 0
    recorded: tuple[int, int] = (0, 0)
    last_late: tuple[str, int | None] = ("", None)


class LateReport(NamedTuple):
    """An attempt that lost its lease and may report its cost once more, after its report `last`;
    `past` is its life, 0 for the present one.
    """

    token: str
    last: int
    owner: str
    past: int = 0


@dataclass(slots=True)
class Record:
    """A task. Its place in an index follows from its state; nothing is stored twice.

    `above` are its dependencies in its DAG, met or not. `flags` has "d" if another task ever waited
    for its completion, "h" if one waited for its end. A task that is `held` is READY and cannot be
    claimed; `suspended` waits for tasks it spawned; `doomed` is cancelled when its DAG is
    committed; `fired` ignores its dependencies then. `previous_named` had its external id before
    it. `gathering` is what it will wait for, by the trigger `gathers`, while the wait is built in
    several calls, with the name of that wait. `reserved` is its reservation while it is leased,
    below 0 for the cost beyond it; also on its worker's account if `own` is set. An `unpaid` task
    is held until its DAG can pay for it. `owed` are lost attempts that may still report their
    costs.
    """

    id: str
    lane: int
    score: int
    definition: bytes
    special: Special
    tenant: str = ""
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
    previous_named: str = ""
    price: tuple[int, int] = (0, 0)
    reserved: int | None = None
    own: bool = False
    unpaid: bool = False
    owed: list[LateReport] = field(default_factory=list)

    @property
    def trigger(self) -> Trigger:
        """The trigger of its present wait."""
        return self.suspended or self.special.trigger

    @property
    def leased(self) -> bool:
        return self.state in LEASED

    @property
    def waiting(self) -> bool:
        """Whether it is not leased and may still run."""
        return self.state in (State.READY, State.PENDING, State.RETRYING)

    def about_to_wait(self) -> set[str]:
        """What it gathers in its running attempt."""
        marks = {one for one in self.gathering if one.startswith("@")}
        goes_on = self.state is State.RUNNING and any(m.endswith(f" {self.token}") for m in marks)
        return self.gathering - marks if goes_on else set()

    def held_by(self, token: str) -> bool:
        return self.leased and self.token == token

    @property
    def discarded_ms(self) -> int | None:
        """When it was discarded, if it was."""
        is_discarded = self.state is State.CANCELLED and self.settled == "discard"
        return self.reviewed_ms if is_discarded else None

    def settled_by(self, token: str, move: str) -> bool:
        """Whether this token ended its lease by this move: a repeated call."""
        return self.settled == f"{move} {token}"


@dataclass(slots=True)
class Graph:
    """A DAG: its status and facts. Its counters follow from its tasks."""

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
    """An idempotency key: its task, and its expiry after a completion."""

    task: str
    until_ms: int | None = None


# A task and its token; a task, its life and its final state.
Lease = tuple[str, str]
Ended = tuple[str, int, State | str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a failed attempt; no delay means dead. `breaker` is the rule for the
    breaker of its type, `failed_by` the workers that failed it, `owes` is "1" if its code may still
    report a cost, `exclusive` is the exclusive lane it moves to, by reap only.
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
    """How long a lease may be renewed: CLAIMED, and RUNNING without a timeout of the task."""

    claim_ms: int
    timeout_ms: int
    grace_ms: int

    def running_ms(self, record: Record) -> int:
        return (record.special.timeout_ms or self.timeout_ms) + self.grace_ms


class Registration(NamedTuple):
    """A worker's last registration, its time and its expiry."""

    seen_ms: int
    until_ms: int
    facts: str
