"""Reports of a running task, stored while its lease is held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.reference.budgets import is_overrun, spend
from tests.reference.settling import LOST, find_leased

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Lease, Notes, Record

# The state of an outbox line for a cost that was reported late.
COST = "COST"
# The lease is lost, but the cost is counted.
LATE = "LATE"


@dataclass(frozen=True, slots=True)
class NoteCall:
    """One report by the holder of a lease; `seq` rises within an attempt, and is None for a lease
    by hand.
    """

    task: str
    token: str
    seq: int | None
    progress: bytes = b""
    checkpoint: bytes = b""
    line: bytes = b""
    micro_usd: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    more_ms: int = 0
    timeout_ms: int = 0
    model: bytes = b""


def note(model: Model, call: NoteCall, *, keep: int) -> str:
    """Stores a report once. Returns OK, LOST, LATE, or that the budget is exceeded."""
    record = find_leased(model, (call.task, call.token))
    if record is None:
        return LATE if note_late(model, call) else LOST
    token, last = record.notes.last_note
    if call.seq is None or token != call.token or last < call.seq:
        add(record.notes, call, keep)
        extend(record, call)
        note_cost(model, record, record.owner, call)
        if call.seq is not None:
            record.notes.last_note = (call.token, call.seq)
    return "budget_exceeded" if call.micro_usd and is_overrun(model, record) else "OK"


def note_cost(
    model: Model, record: Record, owner: str, call: NoteCall, *, late: bool = False
) -> None:
    """Adds costs to the task and its accounts."""
    notes = record.notes
    notes.micro_usd += call.micro_usd
    notes.tokens_in += call.tokens_in
    notes.tokens_out += call.tokens_out
    if call.micro_usd:
        spend(model, record, owner, call.micro_usd, late=late)


def note_late(model: Model, call: NoteCall) -> bool:
    """Counts the cost of an attempt that has lost its lease; returns whether it did."""
    record = model.find(call.task)
    if record is None or not (call.micro_usd or call.tokens_in or call.tokens_out):
        return False
    for debt in record.owed:
        if debt.token == call.token and (call.seq is None or call.seq > debt.last):
            record.owed.remove(debt)
            note_cost(model, record, debt.owner, call, late=True)
            record.notes.before += call.micro_usd if debt.past else 0
            record.notes.late += call.micro_usd if model.archive and not debt.past else 0
            # The record of that attempt is written: its cost must not appear in the next one's.
            usd, tokens = record.notes.recorded
            more = call.tokens_in + call.tokens_out
            record.notes.recorded = (usd + call.micro_usd, tokens + more)
            if model.archive:
                model.outbox.append([(record.id, debt.past or record.life, COST)])
            record.notes.last_late = (call.token, call.seq)
            return True
    return call.seq is not None and record.notes.last_late == (call.token, call.seq)


def add(notes: Notes, call: NoteCall, keep: int) -> None:
    """New values replace older ones or are appended."""
    notes.progress = call.progress or notes.progress
    notes.checkpoint = call.checkpoint or notes.checkpoint
    notes.model = call.model or notes.model
    if call.line:
        notes.lane_turns = [*notes.lane_turns, call.line][-keep:]


def extend(record: Record, call: NoteCall) -> None:
    """Extends the timeout of the task."""
    if call.more_ms:
        own_ms = record.special.timeout_ms or call.timeout_ms
        record.special = replace(record.special, timeout_ms=own_ms + call.more_ms)


def attach(model: Model, lease: Lease, call: tuple[str, bytes], *, most: int) -> str:
    """Adds an artifact and its facts once: OK, LOST or FULL."""
    record = find_leased(model, lease)
    if record is None:
        return LOST
    artifact, facts = call
    if artifact.encode() in record.notes.artifacts:
        return "OK"
    if record.notes.artifacts.count(b"\n") >= most:
        return "FULL"
    record.notes.artifacts += facts + b"\n"
    return "OK"


def step(model: Model, lease: Lease, call: tuple[str, bytes], *, most: int) -> list[str | bytes]:
    """Stores the result of a step unless one is stored, and returns the stored one: OK with it,
    LOST or FULL. Without a result it only reads.
    """
    record = find_leased(model, lease)
    if record is None:
        return [LOST]
    name, result = call
    if result and name not in record.steps:
        if len(record.steps) >= most:
            return ["FULL"]
        record.steps[name] = result
    return ["OK", record.steps.get(name, b"")]
