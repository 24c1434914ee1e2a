"""What is kept of an ended task: as one text where it is plain, else in its parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

NUL = b"\0"
# Where a short definition stands in the hash of its task.
PIECES = tuple(b"def%d" % digit for digit in range(8))

T = TypeVar("T")
Flat = Sequence[bytes]


@dataclass(slots=True)
class Kept:
    """All that is kept of an ended task: its hash, flat, and what stands beside it."""

    flat: Flat
    definition: bytes = b""
    result: bytes = b""
    failures: Flat = ()
    notes: Flat = ()
    logs: Flat = ()
    parents: Flat = ()
    steps: Flat = ()

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        beside = (self.flat, self.failures, self.notes, self.logs, self.parents, self.steps)
        words = sum(len(word) for part in beside for word in part)
        return words + len(self.definition) + len(self.result)

    def apart(self) -> Kept:
        """Itself."""
        return self


class Plain(NamedTuple):
    """A task with nothing beside its hash but perhaps a result. The words of the hash are one text,
    with NULs between them: nearly all tasks are such, and most never need to be taken apart.
    The definition is empty where its pieces are among the words.
    """

    words: bytes
    definition: bytes
    result: bytes

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.words) + len(self.definition) + len(self.result)

    def apart(self) -> Kept:
        """The same in its parts."""
        flat = self.words.split(NUL)
        return Kept(flat, self.definition or joined(flat), self.result)


def is_torn(row: Sequence[Any]) -> bool:
    """Whether a word of a joined hash has a NUL of its own."""
    words, count = row[0], row[1]
    return isinstance(words, bytes) and words.count(NUL) != max(count - 1, 0)


def kept_in(words: bytes | Flat, count: int, definition: bytes, *rest: Any) -> Kept | Plain:
    """What a row tells of a task; an empty hash where nothing is kept of it."""
    if not count:
        return Kept((), definition, *rest)
    if isinstance(words, bytes):
        return Plain(words, definition, *rest)
    return Kept(words, definition or joined(words), *rest)


def joined(flat: Flat) -> bytes:
    """The definition whose pieces stand in a hash."""
    fields = dict(pairs(flat))
    return b"".join([fields.get(piece, b"") for piece in PIECES])


def pairs(words: Sequence[T]) -> Iterator[tuple[T, T]]:
    """The names and values of a flat list."""
    return zip(words[::2], words[1::2], strict=True)


def snapshot_in(copy: bytes) -> Kept:
    """What a script wrote down of a task that may live again; raises ValueError where it is not
    readable. The bytes of its parts are what they were.
    """
    found: Any = json.loads(copy.decode(errors="surrogateescape"))
    hash = found["task"]
    return Kept(
        flat=[raw(word) for pair in hash.items() for word in pair],
        definition=raw(found["def"]),
        failures=[raw(each) for each in found["failures"]],
        notes=[raw(word) for pair in dict(found["notes"]).items() for word in pair],
        logs=[raw(each) for each in found["logs"]],
        parents=[raw(each) for each in found["parents"]],
        steps=[raw(each) for each in found["steps"]],
    )


def raw(word: str) -> bytes:
    """A text of a snapshot as the bytes that it was."""
    return str(word).encode(errors="surrogateescape")
