"""All that Redis keeps of a task beside its definition and result, as one JSON text and back.

Bytes that are no UTF-8 stand in it as lone surrogates, and come out as they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.store.stored import Stored
from rqueue.store.values import words

if TYPE_CHECKING:
    from rqueue.store.kept import Kept

PIECES = tuple(f"def{digit}" for digit in range(8))
BESIDE = ("failures", "notes", "logs", "parents", "steps")


def whole_of(kept: Kept, task: bytes) -> bytes:
    """All that is kept of a task, as JSON in the manner of a record: for what can be no row."""
    names = ("flat", "definition", "result", *BESIDE)
    found = {name: shown(getattr(kept, name)) for name in names}
    return json.dumps({"id": shown(task), **found}).encode()


def shown(part: bytes | Sequence[bytes]) -> str | list[str]:
    """Bytes as text that gives them back."""
    if isinstance(part, bytes):
        return part.decode(errors="surrogateescape")
    return [word.decode(errors="surrogateescape") for word in part]


def record_of(kept: Kept, fields: Mapping[str, str]) -> bytes:
    """What is kept beside definition and result; `fields` is its hash."""
    record: dict[str, Any] = {
        "task": {name: value for name, value in fields.items() if name not in PIECES}
    }
    for name in BESIDE:
        found = getattr(kept, name)
        if found:
            record[name] = shown(found)
    return json.dumps(record, separators=(",", ":")).encode()


def stored_in(record: bytes, definition: bytes, result: bytes) -> Stored:
    """What was kept of a task, as it would be read from Redis; raises one of UNREADABLE where the
    record is none of ours.
    """
    found: Any = json.loads(record)
    beside = {name: [bytes_of(word) for word in found.get(name, ())] for name in BESIDE}
    return Stored(
        {words(bytes_of(name)): words(bytes_of(value)) for name, value in found["task"].items()},
        definition,
        result,
        records=beside["failures"],
        said=beside["notes"],
        lines=beside["logs"],
        many=beside["parents"],
        done=beside["steps"],
    )


def bytes_of(text: str) -> bytes:
    """The bytes that a text of a record stands for."""
    return text.encode(errors="surrogateescape")
