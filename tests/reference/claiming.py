"""Claims: the conversation of a worker, and the answers to waiting claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from rqueue.task.limits import QUEUE
from rqueue.task.state import State
from tests.reference.breakers import wake
from tests.reference.budgets import DagFunds, hold_unpaid, reserve
from tests.reference.dags.graph import dag_admits, is_held_back
from tests.reference.gates import count_start, mark_passed
from tests.reference.selection import Claimant, Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reference.model import Model
    from tests.reference.records import Lease, LimitWords, Record
    from tests.reference.turns import TenantRules


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim; `lanes` are the numbers it may serve at `version`, `tenant_rules` the rules of
    those with tenants.
    """

    waiter: str
    seq: int
    consumer: str
    bits: str
    n: int
    lanes: tuple[int, ...]
    version: int
    box: str
    start: bool = False
    wait_ms: int = 0
    delivery_ms: int = 2000
    begin: int | None = None
    limits: tuple[LimitWords, ...] = ()
    tenant_rules: Mapping[int, TenantRules] = field(default_factory=dict)


@dataclass(slots=True)
class WaitingClaim:
    """The last claim of a worker, its result, and since when it waits."""

    claim: Claim
    given: list[Lease]
    mailed: list[Lease] = field(default_factory=list)
    short: int = 0
    begin: int | None = None
    until_ms: int = 0
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A leased task as its holder receives it."""

    task: str
    token: str
    attempts: int
    reclaims: int
    definition: bytes
    failed_by: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a claim: OK, STALE (a late copy) or LANES (its lanes are out of date)."""

    word: Literal["OK", "STALE", "LANES"]
    wait_ms: int = 0
    grants: tuple[Grant, ...] = ()


# How often a claim looks behind tasks that are held back, and how many heads of its lanes it
# checks.
ROUNDS = 10
HEADS = 250


def claim(model: Model, call: Claim) -> Answer:
    """Leases the best tasks, or lets the claim wait. A claim sent again changes nothing."""
    waiter = model.waiters.get(call.waiter)
    last = waiter.claim.seq if waiter else 0
    if call.seq < last:
        return Answer("STALE")
    if waiter and call.seq == last:
        left = max(0, waiter.until_ms - model.now_ms)
        return Answer("OK", left, live_grants(model, waiter.given + waiter.mailed))
    if call.version != model.version:
        return Answer("LANES")
    carried = live_grants(model, waiter.mailed if waiter else [])
    for grant in carried:
        model.deliveries.pop((grant.task, model.tasks[grant.task].epoch), None)
        if call.start and model.tasks[grant.task].state is State.CLAIMED:
            begin(model, model.tasks[grant.task])
    if waiter:
        waiter.since_ms = None
    begin_now = None if call.begin is None else call.begin - len(carried)
    claimant = claimant_of(call, begin_now)
    taken = take(model, claimant, call.lanes, call.n - len(carried))
    short = call.n - len(carried) - len(taken)
    grants = (*taken, *carried)
    left_to_begin = None if begin_now is None else begin_now - len(taken)
    given = [(grant.task, grant.token) for grant in grants]
    kept = WaitingClaim(call, given, short=short, begin=left_to_begin)
    model.waiters[call.waiter] = kept
    if call.wait_ms == 0 or short <= 0:
        return Answer("OK", 0, grants)
    kept.since_ms, kept.until_ms = model.now_ms, model.now_ms + call.wait_ms
    return Answer("OK", call.wait_ms, grants)


def claimant_of(call: Claim, begin: int | None) -> Claimant:
    """Returns whom a claim is for."""
    rules = call.tenant_rules
    return Claimant(call.waiter, call.consumer, call.bits, call.start, begin, call.limits, rules)


def begin(model: Model, record: Record) -> None:
    """Starts a CLAIMED task."""
    model.deliveries.pop((record.id, record.epoch), None)
    record.state = State.RUNNING
    record.started_ms = record.seen_ms = model.now_ms
    if record.special.unique == "until_start":
        model.release_key(record)


def live_grants(model: Model, leases: Iterable[Lease]) -> tuple[Grant, ...]:
    """The leases that are still held, as their holder receives them."""
    records = ((model.find(task), token) for task, token in leases)
    return tuple(grant(r) for r, token in records if r is not None and r.held_by(token))


def grant(record: Record) -> Grant:
    """The data that the holder of a lease receives."""
    counted = record.attempts, record.reclaims
    return Grant(record.id, record.token, *counted, record.definition, record.failed_by)


def take(model: Model, claimant: Claimant, numbers: Iterable[int], n: int) -> tuple[Grant, ...]:
    """Leases up to `n` tasks of these lanes, lowest effective priority first, then lowest id.

    Tasks behind those that are held back with their DAGs are found in a few further rounds.
    """
    lanes = {number: lane for lane, number in model.lanes.items()}
    served = {number: lanes[number] for number in numbers}
    given: list[Grant] = []
    for _ in range(1 + ROUNDS):
        selection = Selection(model, claimant, served)
        picks = selection.pick(n - len(given))
        free = admit(model, picks)
        if free and served[free[0].lane].exclusive:
            model.exclusive[claimant.consumer] = free[0].id
        for at, record in enumerate(free, 1):
            given.append(lease(model, record, claimant, at))
            mark_passed(model, served[record.lane].type, record)
            count_start(model, served[record.lane].type, claimant.limits)
        selection.end(free)
        model.money.worker_short = selection.worker_short
        if len(free) == len(picks):
            break
        claimant = replace(
            claimant, begin=None if claimant.begin is None else claimant.begin - len(free)
        )
        if len(given) >= n:
            break
        hold_heads(model, list(served))
    else:
        model.wakes[QUEUE] = model.now_ms
    return tuple(given)


def admit(model: Model, picks: Sequence[Record]) -> list[Record]:
    """Returns the tasks that their DAGs admit and can pay for; the others are held back."""
    dag_funds, free = DagFunds(model), []
    for record in picks:
        if not dag_admits(model, record):
            record.held = True
        elif not dag_funds.pays(record):
            hold_unpaid(model, record)
        else:
            free.append(record)
    return free


def hold_heads(model: Model, numbers: Sequence[int]) -> None:
    """Removes tasks from the heads of the lanes that their DAGs hold back or cannot pay for."""
    page = math.ceil(HEADS / len(numbers))
    for record in [model.tasks[task] for n in numbers for task in model.lane(n)[:page]]:
        record.held = is_held_back(model, record)
        if not record.held and not DagFunds(model).pays(record):
            hold_unpaid(model, record)


def lease(model: Model, record: Record, claimant: Claimant, at: int) -> Grant:
    """Leases a task, the `at`-th of its call, with a new epoch and token."""
    record.epoch += 1
    record.token = f"{record.epoch}:{claimant.bits}"
    record.owner = claimant.consumer
    record.claimed_ms = record.seen_ms = model.now_ms
    begins = claimant.started and (claimant.begin is None or at <= claimant.begin)
    record.started_ms = model.now_ms if begins else 0
    record.state = State.RUNNING if claimant.started else State.CLAIMED
    reserve(model, record)
    if claimant.started and record.special.unique == "until_start":
        model.release_key(record)
    return grant(record)


def answer(model: Model, touched: set[int]) -> None:
    """Answers waiting claims that can serve these lanes, longest waiting first."""
    waiting = sorted(
        (waiter.since_ms, name)
        for name, waiter in model.waiters.items()
        if waiter.since_ms is not None and touched.intersection(waiter.claim.lanes)
    )
    for _, name in waiting:
        answer_one(model, model.waiters[name])
        if not any(model.lane(number) for number in touched):
            return


def answer_one(model: Model, waiter: WaitingClaim) -> None:
    """Runs a waiting claim and sends its result to its mailbox."""
    call = waiter.claim
    if waiter.until_ms <= model.now_ms:
        waiter.since_ms = None
        return
    claimant = claimant_of(call, waiter.begin)
    given = take(model, claimant, call.lanes, waiter.short)
    if not given:
        # Another worker is tried first from now on: its budget may suffice.
        waiter.since_ms = model.now_ms if model.money.worker_short else waiter.since_ms
        return
    waiter.since_ms, waiter.until_ms = None, 0
    waiter.mailed = [(grant.task, grant.token) for grant in given]
    for grant in given:
        model.deliveries[grant.task, model.tasks[grant.task].epoch] = (
            model.now_ms + call.delivery_ms
        )
    words = [word for named in waiter.mailed for word in named]
    model.mail(call.box, " ".join(["tasks", str(call.seq), *words]))


def answer_freed(model: Model, touched: set[int], *, freed: bool) -> None:
    """Answers claims that wait for the lanes `touched`, or for capacity or budget that ended leases
    have freed.
    """
    if freed and 0 in model.wakes.values():
        touched = touched | wake(model)
    if touched:
        answer(model, touched)
