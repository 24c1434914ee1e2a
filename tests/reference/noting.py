"""What a running task says of itself, kept while its lease is held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.reference.money import is_overrun, spend
from tests.reference.settling import LOST, held

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Lease, Notes, Record

# What an outbox line says of a cost that was told late.
COST = "COST"
# LOST, but its cost is counted.
LATE = "LATE"


@dataclass(frozen=True, slots=True)
class Noted:
    """One note, by the holder of a lease; `seq` rises within an attempt, and is None by hand."""

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


def note(model: Model, said: Noted, *, keep: int) -> str:
    """Keeps a note; sent again it is not kept twice. OK, LOST, LATE, or that it costs too
    much.
    """
    record = held(model, (said.task, said.token))
    if record is None:
        return LATE if note_late(model, said) else LOST
    token, last = record.notes.noted
    if said.seq is None or token != said.token or last < said.seq:
        add(record.notes, said, keep)
        extend(record, said)
        note_cost(model, record, record.owner, said)
        if said.seq is not None:
            record.notes.noted = (said.token, said.seq)
    return "budget_exceeded" if said.micro_usd and is_overrun(model, record) else "OK"


def note_cost(model: Model, record: Record, owner: str, said: Noted, *, late: bool = False) -> None:
    """Costs add up, with the task and with who pays them."""
    notes = record.notes
    notes.micro_usd += said.micro_usd
    notes.tokens_in += said.tokens_in
    notes.tokens_out += said.tokens_out
    if said.micro_usd:
        spend(model, record, owner, said.micro_usd, late=late)


def note_late(model: Model, said: Noted) -> bool:
    """A run that has lost its lease says what it has cost; whether that is counted."""
    record = model.find(said.task)
    if record is None or not (said.micro_usd or said.tokens_in or said.tokens_out):
        return False
    for debt in record.owed:
        if debt.token == said.token and (said.seq is None or said.seq > debt.last):
            record.owed.remove(debt)
            note_cost(model, record, debt.owner, said, late=True)
            record.notes.before += said.micro_usd if debt.past else 0
            record.notes.late += said.micro_usd if model.archive and not debt.past else 0
            # Its record is written: what it says now is not the next one's.
            usd, tokens = record.notes.recorded
            more = said.tokens_in + said.tokens_out
            record.notes.recorded = (usd + said.micro_usd, tokens + more)
            if model.archive:
                model.outbox.append([(record.id, debt.past or record.life, COST)])
            record.notes.told = (said.token, said.seq)
            return True
    return said.seq is not None and record.notes.told == (said.token, said.seq)


def add(notes: Notes, said: Noted, keep: int) -> None:
    """What is new replaces or follows what was said before."""
    notes.progress = said.progress or notes.progress
    notes.checkpoint = said.checkpoint or notes.checkpoint
    notes.model = said.model or notes.model
    if said.line:
        notes.lines = [*notes.lines, said.line][-keep:]


def extend(record: Record, said: Noted) -> None:
    """Lets the task run longer than it might."""
    if said.more_ms:
        own_ms = record.special.timeout_ms or said.timeout_ms
        record.special = replace(record.special, timeout_ms=own_ms + said.more_ms)


def attach(model: Model, lease: Lease, said: tuple[str, bytes], *, most: int) -> str:
    """Notes an artifact and its facts, once: OK, LOST or FULL."""
    record = held(model, lease)
    if record is None:
        return LOST
    artifact, facts = said
    if artifact.encode() in record.notes.artifacts:
        return "OK"
    if record.notes.artifacts.count(b"\n") >= most:
        return "FULL"
    record.notes.artifacts += facts + b"\n"
    return "OK"


def step(model: Model, lease: Lease, said: tuple[str, bytes], *, most: int) -> list[str | bytes]:
    """Keeps what a step gave unless something is kept under its name, and tells what is: OK with
    that, LOST or FULL. Nothing given, it only tells.
    """
    record = held(model, lease)
    if record is None:
        return [LOST]
    name, result = said
    if result and name not in record.steps:
        if len(record.steps) >= most:
            return ["FULL"]
        record.steps[name] = result
    return ["OK", record.steps.get(name, b"")]
