"""What a server in memory has seen of attempts: who ended which, and how."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.model.state import State
from rqueue.testing.verbs.words import text

if TYPE_CHECKING:
    from rqueue.testing.model import Model
    from rqueue.testing.verbs.words import Asked

# The scripts by which a worker ends its attempts.
ENDINGS = frozenset({"task/complete", "task/fail", "task/turn"})


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that its worker ended: the state it left the task in, and why it failed."""

    task: str
    worker: str
    type: str
    attempt: int
    state: State
    message: str


def begun(model: Model, asked: Asked) -> dict[str, int]:
    """The attempts that a call is about to end, by task: their numbers."""
    leases = ((model.find(text(row["task"])), text(row["token"])) for row in asked.rows)
    return {
        record.id: record.attempts + 1
        for record, token in leases
        if record is not None and record.held_by(token)
    }


def ended(model: Model, attempts: dict[str, int]) -> Iterator[Ended]:
    """Those of the attempts that the call has ended."""
    lanes = {number: lane for lane, number in model.lanes.items()}
    for task, attempt in attempts.items():
        record = model.tasks[task]
        if record.in_hand:
            continue
        failed = record.state is not State.COMPLETED and record.failures
        message = json.loads(record.failures[-1]).get("error") if failed else None
        kind = lanes[record.lane].type
        yield Ended(task, record.owner, kind, attempt, record.state, message or "")
