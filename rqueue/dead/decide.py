"""Decisions on dead tasks: validation of their options, and their form in the audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from rqueue.clock import SYSTEM
from rqueue.dead.clusters import Fingerprint, fingerprint
from rqueue.dead.reviews import RESOLUTIONS, REVIVING, Resolution
from rqueue.errors import InvalidTask
from rqueue.producer import arguments
from rqueue.producer.drafts import to_ms
from rqueue.task.attempt.error_text import headline
from rqueue.task.fields import YEAR_SEC

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

    from rqueue.task.task import Task


# Size limits of a stored review, in bytes.
MOST_NOTE, MOST_DIFF = 4096, 16_384
# Length limit of the stored error message.
MOST_ERROR = 500


class DecisionOptions(TypedDict, total=False):
    """The options of a decision; `by` is a principal, by default the queue's own."""

    cause: str
    note: str
    by: str | None
    not_before: datetime | str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """A validated decision on dead tasks: the resolution and its reasons."""

    resolution: Resolution
    cause: str = ""
    note: str = ""
    by: str = ""
    not_before_ms: int | None = None

    def review(self, task: Task | None, diff: str = "") -> str:
        """Returns the review of one task as JSON for the moves. Empty fields are left out."""
        fields = {
            "by": self.by,
            "resolution": self.resolution,
            "cause": self.cause,
            "note": self.note,
            "not_before": "" if self.not_before_ms is None else str(self.not_before_ms),
            "diff": diff,
        }
        if task is not None:
            fields |= {"type": task.type, "reason": task.failure_reason or ""}
            fields["error"] = headline(task.last_error or "")[:MOST_ERROR]
            fields["fingerprint"] = fingerprint_of(task).id
        known = {name: value for name, value in fields.items() if value}
        return json.dumps(known, separators=(",", ":"))


def decision_of(resolution: str, options: DecisionOptions, *, by: str | None) -> Decision:
    """Returns the decision with these options. Raises InvalidTask. `by` is the default author."""
    word = arguments.word_of("resolution", resolution, RESOLUTIONS)
    unknown = sorted(options.keys() - DecisionOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    given = options.get("by") or by
    cause, not_before = options.get("cause", ""), options.get("not_before")
    if not_before is None and word == "wait":
        raise InvalidTask("not_before", "is needed with the decision wait")
    if not_before is not None and word not in REVIVING:
        raise InvalidTask("not_before", f"is not allowed with the decision {word}")
    return Decision(
        word,
        cause=arguments.label_of("cause", cause) if cause else "",
        note=note_of(options.get("note", "")),
        by=arguments.principal_of("by", given) if given else "",
        not_before_ms=None if not_before is None else later(not_before),
    )


def note_of(given: object) -> str:
    """Returns a valid note: a text of limited size that Redis and PostgreSQL can store. Raises
    InvalidTask.
    """
    if not isinstance(given, str):
        raise InvalidTask("note", "is text")
    if arguments.UNSTORABLE.search(given):
        raise InvalidTask("note", "contains a NUL character or a lone surrogate")
    size = len(given.encode())
    if size > MOST_NOTE:
        raise InvalidTask("note", f"has {size} bytes; {MOST_NOTE} are allowed")
    return given


def later(given: datetime | str) -> int:
    """Returns a time within a year from now, in ms. Raises InvalidTask."""
    when = arguments.instant_of("not_before", given)
    seconds = (when - SYSTEM.now()).total_seconds()
    if seconds <= 0:
        raise InvalidTask("not_before", "has passed already")
    if seconds > YEAR_SEC:
        raise InvalidTask("not_before", "is more than a year away")
    return to_ms(when)


def fingerprint_of(task: Task) -> Fingerprint:
    """Returns the fingerprint of a dead task."""
    return fingerprint(task.type, task.failure_reason or "", task.last_error or "")


def changes(before: Any, after: Any) -> str:
    """Returns the difference of two payloads, as JSON of limited size."""
    found = bounded(difference(before, after), MOST_DIFF)
    return json.dumps(found, separators=(",", ":"))


# If a difference is too long, values with more bytes than this are replaced by their hash.
SHOWN = 200
ABSENT = object()
Step = dict[str, Any]


def difference(before: JsonValue, after: JsonValue) -> list[Step]:
    """Returns the steps that change one value into the other; empty if they are equal."""
    return steps(before, after, "")


def bounded(found: list[Step], most: int) -> list[Step]:
    """Returns the steps in at most `most` bytes of JSON. Long values are replaced by their hash; if
    that is not enough, only the first steps and the number of the others are returned.
    """
    if size(found) <= most:
        return found
    short = [{name: shortened(name, value) for name, value in step.items()} for step in found]
    while short and size([*short, {"more": len(found)}]) > most:
        short = short[: len(short) * 3 // 4]
    left = len(found) - len(short)
    return [*short, {"more": left}] if left else short


def steps(before: Any, after: Any, path: str) -> list[Step]:
    """Returns the steps below a path."""
    if before is ABSENT:
        return [{"op": "add", "path": path, "value": after}]
    if after is ABSENT:
        return [{"op": "remove", "path": path, "was": before}]
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        pairs = [
            (escaped(name), before.get(name, ABSENT), after.get(name, ABSENT)) for name in names
        ]
    elif isinstance(before, list) and isinstance(after, list):
        both = enumerate(zip_longest(before, after, fillvalue=ABSENT))
        pairs = [(str(at), old, new) for at, (old, new) in both]
        # Removals are listed from the end to the start: each one shifts the later positions.
        pairs = pairs[: len(after)] + pairs[len(after) :][::-1]
    elif same(before, after):
        return []
    else:
        return [{"op": "replace", "path": path, "value": after, "was": before}]
    return [step for name, old, new in pairs for step in steps(old, new, f"{path}/{name}")]


def same(before: Any, after: Any) -> bool:
    """Returns whether two values are the same JSON; 1, 1.0 and true differ."""
    return type(before) is type(after) and before == after


def escaped(name: str) -> str:
    """Returns a name, escaped for a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def shortened(name: str, value: Any) -> Any:
    """Returns a value, or its hash if the value is long. Returns the beginning of a long path."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text.encode(errors="replace")) <= SHOWN:
        return value
    if name == "path":
        return f"{value[: SHOWN // 4]}…"
    return {"sha256": sha256(text.encode(errors="replace")).hexdigest(), "bytes": len(text)}


def size(found: list[Step]) -> int:
    """Returns the size of the steps as stored, in bytes."""
    return len(json.dumps(found, separators=(",", ":")))
