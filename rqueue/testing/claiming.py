"""Claiming: the conversation, the choice in exact order, and the answer to parked claims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rqueue.model.limit import QUEUE
from rqueue.model.state import State
from rqueue.testing.gating import is_paused, mark_passed, open_places
from rqueue.testing.graphs import gate, is_shut
from rqueue.testing.limits import open_rooms, pass_one, use_up
from rqueue.testing.money import (
    DEAR,
    Till,
    affordable,
    hold_unpaid,
    pays,
    purse_of,
    reserve,
)
from rqueue.testing.records import Answer, Claim, Grant, Lease, LimitWords, Record, Waiter

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.testing.model import Model
    from rqueue.testing.money import Purse

MINUTE_MS = 60_000
DRAIN_MS = 30_000
# How often a claim looks behind what is held back, and at how many heads of its lanes.
ROUNDS = 10
HEADS = 250


@dataclass(frozen=True, slots=True)
class Who:
    """Whom a lease is for and in which conversation, whether the tasks are started, how many of
    them begin at once, and which limits stand before them.
    """

    waiter: str
    consumer: str
    bits: str
    started: bool = False
    begin: int | None = None
    limits: tuple[LimitWords, ...] = ()


def claim(model: Model, call: Claim) -> Answer:
    """Gives the best tasks, or parks the claim; a claim sent again is a pure read."""
    waiter = model.waiters.get(call.waiter)
    last = waiter.claim.seq if waiter else 0
    if call.seq < last:
        return Answer("STALE")
    if waiter and call.seq == last:
        left = max(0, waiter.until_ms - model.now_ms)
        return Answer("OK", left, still_held(model, waiter.given + waiter.mailed))
    if call.version != model.version:
        return Answer("LANES")
    carried = still_held(model, waiter.mailed if waiter else [])
    for grant in carried:
        model.handoffs.pop((grant.task, model.tasks[grant.task].epoch), None)
        if call.start and model.tasks[grant.task].state is State.CLAIMED:
            begin(model, model.tasks[grant.task])
    if waiter:
        waiter.since_ms = None
    begin_now = None if call.begin is None else call.begin - len(carried)
    who = Who(call.waiter, call.consumer, call.bits, call.start, begin_now, call.limits)
    taken = take(model, who, call.lanes, call.n - len(carried))
    short = call.n - len(carried) - len(taken)
    grants = (*taken, *carried)
    left_to_begin = None if begin_now is None else begin_now - len(taken)
    given = [(grant.task, grant.token) for grant in grants]
    kept = Waiter(call, given, short=short, begin=left_to_begin)
    model.waiters[call.waiter] = kept
    if call.park_ms == 0 or short <= 0:
        return Answer("OK", 0, grants)
    kept.since_ms, kept.until_ms = model.now_ms, model.now_ms + call.park_ms
    return Answer("OK", call.park_ms, grants)


def begin(model: Model, record: Record) -> None:
    """Starts a task that is CLAIMED."""
    model.handoffs.pop((record.id, record.epoch), None)
    record.state = State.RUNNING
    record.started_ms = record.seen_ms = model.now_ms
    if record.special.unique == "until_start":
        model.free_key(record)


def still_held(model: Model, leases: Iterable[Lease]) -> tuple[Grant, ...]:
    """Those of the leases that hold, as their holder is told of them."""
    records = ((model.find(task), token) for task, token in leases)
    return tuple(grant(r) for r, token in records if r is not None and r.held_by(token))


def grant(record: Record) -> Grant:
    """What the holder of a lease is told."""
    counted = record.attempts, record.reclaims
    return Grant(record.id, record.token, *counted, record.definition, record.failed_by)


def take(model: Model, who: Who, numbers: Iterable[int], n: int) -> tuple[Grant, ...]:
    """Up to `n` tasks from these lanes, lowest effective priority first, then lowest id.

    What stands behind those that are held back with their DAGs is looked at a few times.
    """
    lanes = {number: lane for lane, number in model.lanes.items()}
    served = {number: lanes[number] for number in numbers}
    given: list[Grant] = []
    for _ in range(1 + ROUNDS):
        picks = pick(model, who, served, n - len(given))
        free = sift(model, picks)
        if free and served[free[0].lane].alone:
            model.alone[who.consumer] = free[0].id
        for at, record in enumerate(free, 1):
            given.append(lease(model, record, who, at))
            mark_passed(model, served[record.lane].type, record)
            use_up(model, served[record.lane].type, who.limits)
        if len(free) == len(picks):
            break
        who = replace(who, begin=None if who.begin is None else who.begin - len(free))
        if len(given) < n:
            hold_heads(model, list(served))
    return tuple(given)


def sift(model: Model, picks: Sequence[Record]) -> list[Record]:
    """Those that their DAGs let be handed out, and can pay; the others are held back."""
    till, free = Till(model), []
    for record in picks:
        if not gate(model, record):
            record.held = True
        elif not till.pays(record):
            hold_unpaid(model, record)
        else:
            free.append(record)
    return free


def hold_heads(model: Model, numbers: Sequence[int]) -> None:
    """Takes out of the lanes what is held back with its DAG or cannot be paid by it, of so many
    heads of them all.
    """
    page, till = math.ceil(HEADS / len(numbers)), Till(model)
    for record in [model.tasks[task] for n in numbers for task in model.lane(n)[:page]]:
        record.held = is_shut(model, record)
        if not record.held and not till.pays(record):
            hold_unpaid(model, record)


def pick(model: Model, who: Who, served: dict[int, Lane], n: int) -> list[Record]:
    """The heads of the lanes that are this worker's next."""
    if n < 1 or who.waiter in model.drained or runs_alone(model, who.consumer, served):
        return []
    places = open_places(model, served)
    rooms = open_rooms(model, who.limits)
    open_ = {
        number: lane
        for number, lane in served.items()
        if not is_paused(model, number, lane) and room_for(places, rooms, lane.type) >= 1
    }
    purse = purse_of(model, who.consumer)
    if purse is not None:
        open_ = affordable(model, purse, open_, n)
    picks: list[Record] = []
    dear: Counter[int] = Counter()
    for record in in_order(model, open_):
        lane = open_[record.lane]
        if len(picks) >= n:
            break
        if room_for(places, rooms, lane.type) < 1 or dear[record.lane] >= DEAR:
            continue
        verdict = verdict_on(model, record, lane, purse, consumer=who.consumer, picked=len(picks))
        dear[record.lane] += verdict == "next"
        if verdict in ("run", "pick"):
            picks.append(record)
            places[lane.type] -= 1
            pass_one(rooms, lane.type)
        # A task that was lost once runs alone: nothing is given beside it.
        if verdict in ("run", "drain"):
            break
    return picks


def room_for(places: dict[str, float], rooms: dict[str, float], type: str) -> float:
    """How many more of a type may pass its gates."""
    return min(places[type], rooms.get(type, 1), rooms.get(QUEUE, 1))


def verdict_on(
    model: Model, record: Record, lane: Lane, purse: Purse | None, *, consumer: str, picked: int
) -> Literal["pick", "run", "drain", "skip", "next"]:
    """Whether a head may be picked, alone or beside others, and can be paid."""
    alone = may_run_alone(model, consumer, record.lane, picked=picked) if lane.alone else "pick"
    if alone in ("drain", "skip"):
        return alone
    dear = purse is not None and purse.tight and lane.cost and not pays(model, purse, record)
    return "next" if dear else alone


def may_run_alone(
    model: Model, consumer: str, lane: int, *, picked: int
) -> Literal["run", "drain", "skip"]:
    """Whether a task that runs alone may be picked now, or hands are kept free for it."""
    if picked == 0 and not model.in_hand(consumer):
        model.draining.pop(lane, None)
        return "run"
    until_ms, by = model.draining.get(lane, (0, consumer))
    if by != consumer and until_ms > model.now_ms:
        return "skip"
    model.draining[lane] = (model.now_ms + DRAIN_MS, consumer)
    return "drain"


def runs_alone(model: Model, consumer: str, served: dict[int, Lane]) -> bool:
    """Whether the worker has a task in hand that must run alone; what it had is forgotten."""
    if consumer not in model.alone and not any(lane.alone for lane in served.values()):
        return False
    record = model.find(model.alone.get(consumer, ""))
    if record is not None and record.in_hand and record.owner == consumer:
        return True
    model.alone.pop(consumer, None)
    return False


def in_order(model: Model, lanes: dict[int, Lane]) -> list[Record]:
    """The READY tasks of these lanes by effective priority now."""
    ready = [record for record in model.ready() if record.lane in lanes]
    return sorted(ready, key=lambda r: (effective(model, r, lanes[r.lane]), r.id))


def effective(model: Model, record: Record, lane: Lane) -> float:
    """The priority that a written score means now."""
    return record.score - lane.micro_rate * (model.now_ms / MINUTE_MS)


def lease(model: Model, record: Record, who: Who, at: int) -> Grant:
    """Hands a task out, the `at`-th of its call: a new epoch, a new token."""
    record.epoch += 1
    record.token = f"{record.epoch}:{who.bits}"
    record.owner = who.consumer
    record.claimed_ms = record.seen_ms = model.now_ms
    begins = who.started and (who.begin is None or at <= who.begin)
    record.started_ms = model.now_ms if begins else 0
    record.state = State.RUNNING if who.started else State.CLAIMED
    reserve(model, record)
    if who.started and record.special.unique == "until_start":
        model.free_key(record)
    return grant(record)


def answer(model: Model, touched: set[int]) -> None:
    """Answers parked claims that these lanes could serve, longest waiting first."""
    parked = sorted(
        (waiter.since_ms, name)
        for name, waiter in model.waiters.items()
        if waiter.since_ms is not None and touched.intersection(waiter.claim.lanes)
    )
    for _, name in parked:
        answer_one(model, model.waiters[name])
        if not any(model.lane(number) for number in touched):
            return


def answer_one(model: Model, waiter: Waiter) -> None:
    """Runs the claim of a parked waiter and mails it what it got."""
    call = waiter.claim
    if waiter.until_ms <= model.now_ms:
        waiter.since_ms = None
        return
    who = Who(call.waiter, call.consumer, call.bits, call.start, waiter.begin, call.limits)
    given = take(model, who, call.lanes, waiter.short)
    if not given:
        return
    waiter.since_ms, waiter.until_ms = None, 0
    waiter.mailed = [(grant.task, grant.token) for grant in given]
    for grant in given:
        model.handoffs[grant.task, model.tasks[grant.task].epoch] = model.now_ms + call.handoff_ms
    words = [word for named in waiter.mailed for word in named]
    model.mail(call.box, " ".join(["tasks", str(call.seq), *words]))
