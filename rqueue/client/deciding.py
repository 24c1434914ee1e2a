"""A decision about dead tasks: checked at the door, and written down as the audit keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from rqueue.client import door
from rqueue.client.drafts import to_ms
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask
from rqueue.model.checked import YEAR_SEC
from rqueue.model.review import RESOLUTIONS, REVIVING, Resolution
from rqueue.policy.difference import bounded, difference
from rqueue.policy.fingerprint import Fingerprint, fingerprint
from rqueue.policy.headline import headline

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.task import Task

# What one review may take, in bytes.
MOST_NOTE, MOST_DIFF = 4096, 16_384
# So many characters of what the error says are kept with it.
MOST_ERROR = 500


class Told(TypedDict, total=False):
    """What may be said of a decision; `by` is a principal, by default the queue's own."""

    cause: str
    note: str
    by: str | None
    not_before: datetime | str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of dead tasks, and why. All of it has been checked."""

    resolution: Resolution
    cause: str = ""
    note: str = ""
    by: str = ""
    not_before_ms: int | None = None

    def review(self, task: Task | None, diff: str = "") -> str:
        """What is kept of it, about one task, as the scripts take it; nothing is said twice."""
        said = {
            "by": self.by,
            "resolution": self.resolution,
            "cause": self.cause,
            "note": self.note,
            "not_before": "" if self.not_before_ms is None else str(self.not_before_ms),
            "diff": diff,
        }
        if task is not None:
            said |= {"type": task.type, "reason": task.failure_reason or ""}
            said["error"] = headline(task.last_error or "")[:MOST_ERROR]
            said["fingerprint"] = fingerprint_of(task).id
        known = {name: value for name, value in said.items() if value}
        return json.dumps(known, separators=(",", ":"))


def decision_of(resolution: str, said: Told, *, by: str | None) -> Decision:
    """The decision that these words make; InvalidTask where one breaks a rule. `by` is who it is
    where they do not say.
    """
    word = door.word_of("resolution", resolution, RESOLUTIONS)
    unknown = sorted(said.keys() - Told.__annotations__.keys())
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    given = said.get("by") or by
    cause, not_before = said.get("cause", ""), said.get("not_before")
    if not_before is None and word == "wait":
        raise InvalidTask("not_before", "is needed: until when shall it wait?")
    if not_before is not None and word not in REVIVING:
        raise InvalidTask("not_before", f"makes no sense where the decision is {word}")
    return Decision(
        word,
        cause=door.label_of("cause", cause) if cause else "",
        note=note_of(said.get("note", "")),
        by=door.principal_of("by", given) if given else "",
        not_before_ms=None if not_before is None else later(not_before),
    )


def note_of(given: object) -> str:
    """What a reviewer remarks, if it is not too long and every store can keep it."""
    if not isinstance(given, str):
        raise InvalidTask("note", "is text")
    if door.UNSTORABLE.search(given):
        raise InvalidTask("note", "contains a NUL character or a lone surrogate")
    size = len(given.encode())
    if size > MOST_NOTE:
        raise InvalidTask("note", f"has {size} bytes; {MOST_NOTE} are allowed")
    return given


def later(given: datetime | str) -> int:
    """A time within a year from now, in ms."""
    when = door.instant_of("not_before", given)
    seconds = (when - SYSTEM.now()).total_seconds()
    if seconds <= 0:
        raise InvalidTask("not_before", "has passed already")
    if seconds > YEAR_SEC:
        raise InvalidTask("not_before", "is more than a year away")
    return to_ms(when)


def fingerprint_of(task: Task) -> Fingerprint:
    """What a task that failed has in common with others."""
    return fingerprint(task.type, task.failure_reason or "", task.last_error or "")


def changes(before: Any, after: Any) -> str:
    """How a payload was changed, as JSON that is not too long to keep."""
    found = bounded(difference(before, after), MOST_DIFF)
    return json.dumps(found, separators=(",", ":"))
