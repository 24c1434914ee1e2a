"""Moves of leases, each by the holder of a token."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.breakers import apply_success, slow_down, trip
from tests.reference.budgets import (
    allow_late_report,
    apply_refunds,
    drop_idle_accounts,
    refunded,
    release_reservation,
)
from tests.reference.claiming import answer, answer_freed, begin
from tests.reference.dependents import end_dead, lanes, resolve_dependents, resolve_end_dependents
from tests.reference.records import Ended, Key, Lease, Limits, Record, Verdict
from tests.reference.turns import wake_gates_of

if TYPE_CHECKING:
    from tests.reference.model import Model

LOST = "LOST"


def find_leased(model: Model, lease: Lease) -> Record | None:
    """The task, if this token holds its lease."""
    record = model.find(lease[0])
    return record if record is not None and record.held_by(lease[1]) else None


def settled_by(model: Model, lease: Lease, move: str) -> bool:
    """Whether the lease was ended by this move before."""
    record = model.find(lease[0])
    return record is not None and record.settled_by(lease[1], move)


def start(model: Model, leases: Sequence[Lease]) -> list[str]:
    """CLAIMED to RUNNING."""
    return [start_one(model, find_leased(model, lease)) for lease in leases]


def start_one(model: Model, record: Record | None) -> str:
    if record is None:
        return LOST
    if record.state is State.VALIDATING:
        return "STATE:VALIDATING"
    if record.state is State.CLAIMED:
        begin(model, record)
    record.started_ms = record.started_ms or model.now_ms
    return "OK"


def renew(model: Model, consumer: str, leases: Sequence[Lease], *, limits: Limits) -> list[str]:
    """Renews the leases of one worker; OK, LOST, claim_expired or timeout for each."""
    return [renew_one(model, consumer, find_leased(model, lease), limits) for lease in leases]


def renew_one(model: Model, consumer: str, record: Record | None, limits: Limits) -> str:
    if record is None or record.owner != consumer:
        return LOST
    if record.state is State.CLAIMED:
        if model.now_ms - record.claimed_ms > limits.claim_ms:
            return "claim_expired"
    elif model.now_ms - (record.started_ms or record.claimed_ms) > limits.running_ms(record):
        return "timeout"
    record.seen_ms = model.now_ms
    return "OK"


def validate(model: Model, leases: Sequence[Lease]) -> list[str]:
    """RUNNING to VALIDATING."""
    words = []
    for lease in leases:
        record = find_leased(model, lease)
        if record is None:
            words.append(LOST)
        elif record.state is State.CLAIMED:
            words.append("STATE:CLAIMED")
        else:
            record.state = State.VALIDATING
            record.started_ms = record.started_ms or model.now_ms
            words.append("OK")
    return words


def complete(model: Model, leases: Sequence[tuple[str, str, bytes]]) -> list[str]:
    """RUNNING or VALIDATING to COMPLETED; dependents are resolved."""
    words: list[str] = []
    ended: list[Ended] = []
    touched: set[int] = set()
    completed: list[Record] = []
    refunds: list[str] = []
    for task, token, result in leases:
        record = find_leased(model, (task, token))
        if record is not None and record.state is State.CLAIMED:
            words.append("STATE:CLAIMED")
        elif record is not None:
            refunds += refunded(model, record)
            ended.append(complete_one(model, record, result))
            completed.append(record)
            touched |= resolve_dependents(model, task) | resolve_end_dependents(model, record)
            words.append("OK")
        else:
            known = model.find(task)
            done = known is not None and known.state is State.COMPLETED and known.token == token
            words.append("OK" if done else LOST)
    drop_idle_accounts(model)
    touched |= apply_refunds(model, refunds) | apply_success(model, completed)
    model.record_ended(ended)
    if touched:
        answer(model, touched)
    return words


def complete_one(model: Model, record: Record, result: bytes) -> Ended:
    record.result = result or record.result
    idem = record.special.idem
    if idem is not None and model.key_holder(idem) == record.id:
        model.keys[idem] = Key(record.id, model.now_ms + record.special.window_ms)
    return model.end(record, State.COMPLETED, None)


def fail(model: Model, verdicts: Sequence[Verdict]) -> list[str]:
    """Leased to RETRYING, or DEAD_LETTERED where the verdict has no delay."""
    words: list[str] = []
    freed = False
    ended: list[Ended] = []
    for verdict in verdicts:
        lease = (verdict.task, verdict.token)
        record = find_leased(model, lease)
        if record is not None:
            freed = True
            if verdict.owes and record.state is not State.CLAIMED:
                allow_late_report(record)
            words.append(fail_one(model, record, verdict, f"fail {record.token}", ended=ended))
            trip(model, verdict.type, verdict.breaker, lease)
        elif settled_by(model, lease, "fail"):
            words.append("DEAD_LETTERED" if verdict.delay_ms is None else "RETRYING")
        else:
            words.append(LOST)
    model.record_ended(ended)
    answer_freed(model, set(), freed=freed)
    return words


def fail_one(
    model: Model, record: Record, verdict: Verdict, settled: str, *, ended: list[Ended]
) -> str:
    record.attempts, record.reclaims = verdict.attempts, verdict.reclaims
    record.reason, record.poison = verdict.reason, verdict.poison
    record.failed_by = verdict.failed_by or record.failed_by
    if verdict.record:
        whole = recorded(record, verdict.record, model.now_ms)
        record.failures = [*record.failures, whole][-model.keep_failures :]
    if verdict.delay_ms is None:
        ended.append(end_dead(model, record, settled))
    else:
        retry_later(model, record, verdict.delay_ms, settled)
    return record.state.value


def recorded(record: Record, written: str, now_ms: int) -> str:
    """The record of an attempt with its duration, cost and model: what was reported since the
    record before.
    """
    notes, took_ms = record.notes, max(0, now_ms - (record.started_ms or record.claimed_ms))
    more = f',"duration_sec":{took_ms / 1000:.3f}'
    if notes.last_note[0] or notes.micro_usd or notes.tokens_in or notes.tokens_out:
        usd, tokens = notes.recorded
        notes.recorded = (notes.micro_usd, notes.tokens_in + notes.tokens_out)
        cost = (notes.recorded[0] - usd) / 1_000_000
        more += f',"cost_usd":{cost:.6f},"tokens":{notes.recorded[1] - tokens}'
    if notes.model:
        # The reported model replaces the configured one. The next attempt has its own.
        written = re.sub(',"model":"[^"]*"', "", written)
        named = json.dumps(notes.model.decode(errors="replace")).replace("/", r"\/")
        more += f',"model":{named}'
        notes.model = b""
    return f"{written[:-1]}{more}}}"


def retry_later(model: Model, record: Record, delay_ms: int, settled: str) -> None:
    """Ends the lease and delays the task."""
    wake_gates_of(model, record)
    model.deliveries.pop((record.id, record.epoch), None)
    release_reservation(model, record)
    record.state, record.settled = State.RETRYING, settled
    record.due_ms = model.now_ms + delay_ms


def park(
    model: Model, leases: Sequence[tuple[str, str, int, str, int]], most: int | None = None
) -> list[str]:
    """RUNNING or VALIDATING to RETRYING without an attempt spent; each row has its delay in ms, its
    type, and the duration of the slow-down of its tenant, or of its type without one.
    """
    words, freed = [], False
    for task, token, delay_ms, type, slow_ms in leases:
        record = find_leased(model, (task, token))
        if record is None:
            words.append("OK" if settled_by(model, (task, token), "park") else LOST)
        elif record.state is State.CLAIMED:
            words.append("STATE:CLAIMED")
        elif most is not None and record.parks >= most:
            words.append("STATE:SPENT")
        else:
            retry_later(model, record, delay_ms, f"park {token}")
            record.parks += 1
            trip(model, type, "", (task, token))
            slow_down(model, f"@{record.tenant}" if record.tenant else type, slow_ms)
            freed = True
            words.append("OK")
    answer_freed(model, set(), freed=freed)
    return words


def return_to_ready(model: Model, record: Record, settled: str) -> int | None:
    """Makes a leased task READY again without an attempt spent. Returns the lane it enters."""
    wake_gates_of(model, record)
    record.settled = settled
    return model.make_ready(record)


def release(model: Model, leases: Sequence[Lease]) -> list[str]:
    """Leased to READY, no attempt spent."""
    words: list[str] = []
    entered: list[int | None] = []
    for lease in leases:
        record = find_leased(model, lease)
        if record is not None:
            if record.state is not State.CLAIMED:
                allow_late_report(record)
            entered.append(return_to_ready(model, record, f"release {record.token}"))
            words.append("OK")
        else:
            words.append("OK" if settled_by(model, lease, "release") else LOST)
    answer_freed(model, lanes(entered), freed=bool(entered))
    return words
