"""The quick way to a row, for a task with nothing special about it: nearly all are such, and the
archive must keep up with whole fleets.

It gives what `row_of` gives, to the letter, or nothing at all.
"""

from __future__ import annotations

import re
from binascii import hexlify
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from pydantic_core import from_json

from rqueue.archive.rows import Row, row_of
from rqueue.model.scale import DEFAULT_PRIORITY
from rqueue.model.ulid import TO_BASE_32
from rqueue.store.outbox import PIECES

if TYPE_CHECKING:
    from rqueue.store.outbox import Kept, Line

VALUE = b"1 COMPLETED"
# The fields of a plain task, in the order in which they were written.
BEFORE = [b"state", b"lane", b"entry", b"score"]
AFTER = [b"token", b"holder", b"finished"]
SHAPES = [BEFORE + list(PIECES[:count]) + AFTER for count in range(len(PIECES) + 1)]
OPTIONS = frozenset({"t", "p", "priority"})
# Times in ms, and characters that mean nothing to JSON, to COPY and to PostgreSQL.
MS, SAFE = rb"(0|[1-9]\d{0,14})", rb"[ !#-\[\]-~]*"
# Lane, entry, score, token, holder (when it was claimed, when it began, by whom) and its end.
FACTS = re.compile(
    rb"%b\n%b-\d{1,9}\n%b\n(0|[1-9]\d{0,8})(?::%b)?\n%b %b ([!#-\[\]-~]*)\n%b"
    % (SAFE, MS, SAFE, SAFE, MS, MS, MS)
)
NAME = re.compile(r"[A-Za-z0-9._-]+")
ULID = re.compile(rb"[0-7][0-9A-HJKMNP-TV-Z]{25}")

RECORD = (
    b'{"task":{"state":"COMPLETED","lane":"%b","entry":"%b","score":"%b","token":"%b",'
    b'"holder":"%b","finished":"%b"}}'
)
LINE = (
    b"%b\t1\tCOMPLETED\t%b\t\\N\t\\N\t\\N\t%b\t\\N\t%b\t0\t0\t0\t%b\t%b\t%b\t%b"
    b"\t\\N\t\\N\t\\N\t\\N\tf\t0\t0\t0\t\\N\t\\N\t\\N\t\\\\x%b\tt\t%b\t\\\\x%b\t\\\\x%b\n"
)


@dataclass(slots=True)
class QuickRow(Row):
    """A row that was written at once; its columns are made where they are asked for."""

    text: bytes = b""
    source: tuple[Line, Kept] | None = None

    @property
    def has_json(self) -> bool:
        """Always: its definition is."""
        return True

    @property
    def digest(self) -> str:
        """What makes it the same end as another: the last of its columns."""
        return self.text.decode().rstrip("\n").rpartition("\t")[2]

    def line(self) -> bytes:
        """The row as COPY reads it."""
        return self.text

    def without_json(self) -> Row:
        """The same row, made the long way, without what is to be read as JSON."""
        assert self.source is not None
        return row_of(*self.source).without_json()


def row_for(line: Line, kept: Kept, lane_type: str | None = None) -> Row:
    """The row of an ended task, made the quick way if that will do; raises Unfit."""
    return quick_row(line, kept) or row_of(line, kept, lane_type)


def quick_row(line: Line, kept: Kept) -> QuickRow | None:
    """The row of a plain task that completed; None for any other."""
    flat = kept.flat
    count = len(flat) // 2 - len(BEFORE) - len(AFTER)
    if line.value != VALUE or not 0 <= count < len(SHAPES) or flat[::2] != SHAPES[count]:
        return None
    state, lane, entry, score, *_, token, holder, finished = flat[1::2]
    facts = lane, entry, score, token, holder, finished
    numbers = FACTS.fullmatch(b"\n".join(facts))
    asked, output = asked_of(kept.definition), output_of(kept.result)
    if not (numbers and asked and output) or state != b"COMPLETED" or not ULID.fullmatch(line.task):
        return None
    created, epoch, claimed, started, owner, _ = numbers.groups()
    type, priority = asked
    ulid = line.task.decode()
    head = b"1 COMPLETED %b %d " % (finished, len(kept.definition))
    text = LINE % (
        b"%032x" % int(ulid.translate(TO_BASE_32), 32), type, owner, priority, epoch, created,
        claimed if started == b"0" else started, finished, hexlify(kept.definition), output,
        hexlify(RECORD % facts),
        hexlify(sha256(head + kept.definition + kept.result).digest()[:16]),
    )  # fmt: skip
    return QuickRow(ulid, 1, {}, text=text, source=(line, kept))


def asked_of(definition: bytes) -> tuple[bytes, bytes] | None:
    """Type and priority of a task that has nothing else."""
    if b"\\u0000" in definition:
        return None
    try:
        spec = from_json(definition, allow_inf_nan=False)
    except ValueError:
        return None
    if type(spec) is not dict or not spec.keys() <= OPTIONS:
        return None
    name, priority = spec.get("t"), spec.get("priority", DEFAULT_PRIORITY)
    if type(name) is not str or type(priority) is not float or not NAME.fullmatch(name):
        return None
    return name.encode(), repr(priority).encode()


def output_of(result: bytes) -> bytes | None:
    """The two columns of a result."""
    if not result:
        return b"\\N\tf"
    if b"\\u0000" in result:
        return None
    try:
        from_json(result, allow_inf_nan=False)
    except ValueError:
        return None
    return b"\\\\x%b\tt" % hexlify(result)
