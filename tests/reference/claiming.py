"""Claiming: the conversation, the choice in exact order, and the answer to parked claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rqueue.task.limits import QUEUE
from rqueue.task.state import State
from tests.reference.conversation import Answer, Claim, Grant, WaitingClaim
from tests.reference.gating import mark_passed
from tests.reference.graphs import gate, is_shut
from tests.reference.limits import use_up
from tests.reference.money import Till, hold_unpaid, reserve
from tests.reference.picking import Picking, Who

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Lease, Record

# How often a claim looks behind what is held back, and at how many heads of its lanes.
ROUNDS = 10
HEADS = 250


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
    who = who_asks(call, begin_now)
    taken = take(model, who, call.lanes, call.n - len(carried))
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


def who_asks(call: Claim, begin: int | None) -> Who:
    """Whom a claim is for."""
    keys = call.keys
    return Who(call.waiter, call.consumer, call.bits, call.start, begin, call.limits, keys)


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
        picking = Picking(model, who, served)
        picks = picking.pick(n - len(given))
        free = sift(model, picks)
        if free and served[free[0].lane].exclusive:
            model.exclusive[who.consumer] = free[0].id
        for at, record in enumerate(free, 1):
            given.append(lease(model, record, who, at))
            mark_passed(model, served[record.lane].type, record)
            use_up(model, served[record.lane].type, who.limits)
        picking.end(free)
        model.money.poor = picking.poor
        if len(free) == len(picks):
            break
        who = replace(who, begin=None if who.begin is None else who.begin - len(free))
        if len(given) >= n:
            break
        hold_heads(model, list(served))
    else:
        model.wakes[QUEUE] = model.now_ms
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
    """Takes out of the lanes what is held back with its DAG or is dearer than what that has left,
    of so many heads of them all.
    """
    page = math.ceil(HEADS / len(numbers))
    for record in [model.tasks[task] for n in numbers for task in model.lane(n)[:page]]:
        record.held = is_shut(model, record)
        if not record.held and not Till(model).pays(record):
            hold_unpaid(model, record)


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
    """Runs the claim of a parked waiter and mails it what it got."""
    call = waiter.claim
    if waiter.until_ms <= model.now_ms:
        waiter.since_ms = None
        return
    who = who_asks(call, waiter.begin)
    given = take(model, who, call.lanes, waiter.short)
    if not given:
        # The next one is asked first from now on: it may have money.
        waiter.since_ms = model.now_ms if model.money.poor else waiter.since_ms
        return
    waiter.since_ms, waiter.until_ms = None, 0
    waiter.mailed = [(grant.task, grant.token) for grant in given]
    for grant in given:
        model.handoffs[grant.task, model.tasks[grant.task].epoch] = model.now_ms + call.delivery_ms
    words = [word for named in waiter.mailed for word in named]
    model.mail(call.box, " ".join(["tasks", str(call.seq), *words]))
