"""Rows of plain completed tasks, made faster than by `rows.row_of`.

Nearly all tasks are plain, and the archive must keep up with many workers. The row is byte for byte
the same as that of `row_of`; for any other task there is none.
"""

from __future__ import annotations

import re
from binascii import hexlify
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

from pydantic_core import from_json

from rqueue.archive.copying import has_nul
from rqueue.archive.rows import Row, row_of
from rqueue.core.ended import PIECES, PlainTask
from rqueue.task.ids import TO_BASE_32
from rqueue.task.priority import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.core.ended import EndedTask
    from rqueue.core.outbox import OutboxItem

VALUE = b"1 COMPLETED"
OPTIONS = frozenset({"t", "p", "priority"})
# Times in ms, and characters without a special meaning in JSON, COPY and PostgreSQL.
MS, SAFE = rb"(?:0|[1-9]\d{0,14})", rb"[ !#-\[\]-~]*"


def in_order(pieces: Sequence[bytes]) -> bytes:
    """Returns a pattern for a definition in zero or more pieces, in order."""
    if not pieces:
        return b""
    return rb"(?:\x00%b\x00([^\x00]*)%b)?" % (pieces[0], in_order(pieces[1:]))


# The hash of a plain task, in the order in which it was written: lane, entry (with its time),
# score, definition, token (with the epoch), holder (the times of the claim and the start, and the
# worker) and the time of the end.
WORDS = re.compile(
    rb"state\x00COMPLETED\x00lane\x00(%b)\x00entry\x00((%b)-\d{1,9})\x00score\x00(%b)%b"
    rb"\x00token\x00((0|[1-9]\d{0,8})(?::%b)?)\x00holder\x00((%b) (%b) ([!#-\[\]-~]*))"
    rb"\x00finished\x00(%b)" % (SAFE, MS, SAFE, in_order(PIECES), SAFE, MS, MS, MS)
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
class QuickRow:
    """The row of a completed task in its first life that is in no DAG, never failed and has a JSON
    definition. It has the interface of `Row`.
    """

    ulid: str
    text: bytes
    item: OutboxItem
    plain: PlainTask

    life: ClassVar[int] = 1
    dag: ClassVar[str | None] = None
    failures: ClassVar[Sequence[str]] = ()
    is_typed: ClassVar[bool] = True
    is_discarded: ClassVar[bool] = False
    has_json: ClassVar[bool] = True

    @property
    def digest(self) -> str:
        """Equal for equal ends of a life: the last column."""
        return self.text.decode().rstrip("\n").rpartition("\t")[2]

    def line(self) -> bytes:
        """Returns the row in COPY format."""
        return self.text

    def without_json(self) -> Row:
        """Returns the row as `row_of` makes it, with raw bytes only."""
        return row_of(self.item, self.plain.unpacked()).without_json()


def quick_row(line: OutboxItem, kept: EndedTask | PlainTask) -> QuickRow | None:
    """Returns the row of a plain completed task; None for any other."""
    if line.value != VALUE or not isinstance(kept, PlainTask):
        return None
    found = WORDS.fullmatch(kept.words)
    if found is None or not ULID.fullmatch(line.task):
        return None
    words = found.groups(b"")
    lane, entry, created, score = words[:4]
    token, epoch, holder, claimed, started, owner, finished = words[-7:]
    definition, result = kept.definition or b"".join(words[4:-7]), kept.result
    named, output = type_and_priority(definition), result_columns(result)
    if named is None or output is None:
        return None
    ulid = line.task.decode()
    head = b"1 COMPLETED %b %d " % (finished, len(definition))
    text = LINE % (
        b"%032x" % int(ulid.translate(TO_BASE_32), 32), named[0], owner, named[1], epoch, created,
        claimed if started == b"0" else started, finished, hexlify(definition), output,
        hexlify(RECORD % (lane, entry, score, token, holder, finished)),
        hexlify(sha256(head + definition + result).digest()[:16]),
    )  # fmt: skip
    return QuickRow(ulid, text, line, kept)


def type_and_priority(definition: bytes) -> tuple[bytes, bytes] | None:
    """Returns the type and the priority of a definition; None if it has other options."""
    if has_nul(definition):
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


def result_columns(result: bytes) -> bytes | None:
    """Returns the two columns of a result; None if it is not JSON that PostgreSQL can store."""
    if not result:
        return b"\\N\tf"
    if has_nul(result):
        return None
    try:
        from_json(result, allow_inf_nan=False)
    except ValueError:
        return None
    return b"\\\\x%b\tt" % hexlify(result)
