"""What is decided about dead tasks, and kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.task.state import State

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Record

# What is said of a decision, by name; a task, the life that was seen if any was, what is said.
Said = Mapping[str, str]
Decided = tuple[str, int | None, Said]

# What is kept of a decision beside its task, in the order of lua/include/add_review.lua.
NAMES = (
    "by",
    "resolution",
    "cause",
    "note",
    "not_before",
    "diff",
    "type",
    "reason",
    "error",
    "fingerprint",
)


def decided_first(record: Record, life: int | None) -> str | None:
    """What a decision is answered that comes too late, or about what is not dead."""
    if record.state is State.DEAD_LETTERED and life in (None, record.life):
        return None
    discarded = record.discarded_ms is not None
    if life is not None and (record.life > life or (record.life == life and discarded)):
        return "DECIDED"
    return "STATE"


def add_review(model: Model, task: str, life: int, said: Said) -> None:
    """Keeps a decision. The model forgets none: how many stay is about right on a server, too."""
    known = {name: said[name] for name in NAMES if name in said}
    row = {"task": task, "life": str(life), "at": str(model.now_ms), **known}
    seq = sum(entry.startswith(f"{model.now_ms}-") for entry in model.reviews)
    model.reviews[f"{model.now_ms}-{seq}"] = row


def escalate(model: Model, rows: Sequence[Decided]) -> list[str]:
    """Marks dead tasks for whoever may decide about them; each with the life that was seen."""
    words = []
    for task, life, said in rows:
        record = model.seen(task)
        late = record and decided_first(record, life)
        if record is None:
            words.append("GONE")
        elif late:
            words.append(f"{late}:{record.state}")
        else:
            record.reviewed_ms, record.resolution = model.now_ms, "escalate"
            add_review(model, task, record.life, {"resolution": "escalate", **said})
            words.append("OK")
    return words


def reviewed(model: Model, entries: Sequence[str]) -> int:
    """These reviews are in the archive; how many were still here."""
    return sum(model.reviews.pop(entry, None) is not None for entry in entries)
