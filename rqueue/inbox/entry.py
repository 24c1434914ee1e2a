"""Parses an entry of the inbox into the texts of its tasks, and derives their ids.

A producer writes one of two kinds of entry. The first has `task` fields, any number of them, each
with one task or a JSON array of tasks, and at most one field `form`. The second has one field `dag`
with the plan of a DAG. Reading an entry again gives the same tasks with the same ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count, islice
from json import JSONDecoder
from typing import TYPE_CHECKING, NamedTuple

from rqueue.dags.plan import Plan
from rqueue.errors import InvalidTask
from rqueue.task.fields import INBOX
from rqueue.task.forms import FORMS, Form, read
from rqueue.task.forms.document import MAX_DOCUMENT_BYTES, parse
from rqueue.task.ids import TaskId, ulid_of

if TYPE_CHECKING:
    from rqueue.task.spec import TaskSpec

TASK, FORM, DAG = b"task", b"form", b"dag"
MAX_TASKS = 1000
OWN_ID = "is derived by the inbox, so that a repeated entry creates one DAG"
# Characters of an unknown field's name that are shown.
SHOWN = 64
# Bits of an id: positions within a millisecond, first by entry and then by task.
ENTRY_BITS, TASK_BITS, HASH_BITS = 10, 10, 44
LATEST_MS = (1 << 48) - 1

SPACE = re.compile(r"[ \t\n\r]*")
# Finds the end of each item only: the item is checked when it is read.
FINDER = JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False)


class Text(NamedTuple):
    """One task of an entry as the producer wrote it."""

    at: int
    text: bytes


class Entry(NamedTuple):
    """An entry of the stream. In `words`, names and values alternate."""

    id: str
    words: Sequence[bytes]

    @property
    def pairs(self) -> list[tuple[bytes, bytes]]:
        """The fields in order. A name may occur more than once."""
        return list(zip(self.words[::2], self.words[1::2], strict=True))

    @property
    def whole(self) -> bytes:
        """The whole entry in one line, for display."""
        return b" ".join(self.words)


def form_named(entry: Entry) -> Form | None:
    """Returns the form that an entry names for its tasks; None if the fields of each task
    decide.
    """
    for name, _ in entry.pairs:
        if name not in (TASK, FORM, DAG):
            shown = name[:SHOWN].decode(errors="backslashreplace")
            raise InvalidTask("entry", f"has a field {shown!r}; it may have task and form, or dag")
    named = [value for name, value in entry.pairs if name == FORM]
    if len(named) > 1:
        raise InvalidTask("form", "is given more than once; send an entry for each form")
    for form in FORMS:
        if named == [form.encode()]:
            return form
    if named:
        raise InvalidTask("form", f"is one of {', '.join(FORMS)}")
    return None


def plan_in(root: str, entry: Entry) -> Plan | None:
    """Returns the plan of an entry with a DAG; raises InvalidTask."""
    texts = [value for name, value in entry.pairs if name == DAG]
    if not texts:
        return None
    if len(entry.pairs) > 1:
        raise InvalidTask("entry", "has a field 'dag' and others; a DAG has an entry to itself")
    if not texts[0].lstrip().startswith(b"{"):
        raise InvalidTask("dag", "is not a JSON object")
    given = parse(texts[0])
    refuse_ids(given)
    # Hashed once: a plan is long, and each of its tasks has an id.
    digest, places = sha256(texts[0]).digest(), count()

    def ulids(number: int) -> list[str]:
        return [id_of(root, entry, None, Text(at, digest)).ulid for at in islice(places, number)]

    return on_one_scale(Plan.parse(given, ulids)).signed(INBOX)


def refuse_ids(given: object) -> None:
    """Raises InvalidTask if a plan contains ids. The inbox derives them from the entry."""
    while isinstance(given, Mapping):
        rows = given.get("tasks")
        for at, row in enumerate(rows if isinstance(rows, list) else []):
            if isinstance(row, Mapping) and "id" in row:
                raise InvalidTask(f"tasks[{at}].id", OWN_ID)
        if "id" in given:
            raise InvalidTask("dag.id", OWN_ID)
        given = given.get("on_complete")


def on_one_scale(plan: Plan) -> Plan:
    """Returns the plan with the native scale as default, like all tasks of the inbox."""
    tasks = [replace(task, fields={"scale": "native", **task.fields}) for task in plan.tasks]
    following = None if plan.on_complete is None else on_one_scale(plan.on_complete)
    return replace(plan, tasks=tasks, on_complete=following)


def texts_of(entry: Entry) -> list[Text]:
    """Returns the tasks of an entry in order. A part that cannot be read is one task."""
    found: list[bytes] = []
    for name, value in entry.pairs:
        if name == TASK:
            found += items_of(value)
    if not found:
        raise InvalidTask("entry", "contains no task")
    if len(found) > MAX_TASKS:
        raise InvalidTask("entry", f"contains {len(found)} tasks; {MAX_TASKS} are allowed")
    return [Text(at, text) for at, text in enumerate(found)]


def items_of(value: bytes) -> list[bytes]:
    """Returns the text of each item of a JSON array, unchanged; for other texts, the text
    itself.
    """
    if len(value) > MAX_DOCUMENT_BYTES or not value.lstrip().startswith(b"["):
        return [value]
    # All bytes are preserved: one bad item does not affect the others.
    text = value.decode(errors="surrogateescape")
    try:
        return [item.encode(errors="surrogateescape") for item in items(text)]
    except (ValueError, RecursionError):
        return [value]


def items(text: str) -> Iterator[str]:
    """Yields the items of an array's text. Raises ValueError if it is not an array."""
    at = skip(text, skip(text, 0) + 1)
    while text[at : at + 1] != "]":
        _, end = FINDER.raw_decode(text, at)
        yield text[at:end]
        at = skip(text, end)
        if text[at : at + 1] == ",":
            at = skip(text, at + 1)
            if text[at : at + 1] == "]":
                raise ValueError("a comma before the end")
        elif text[at : at + 1] != "]":
            raise ValueError("no comma between two items")
    if skip(text, at + 1) != len(text):
        raise ValueError("text after the end")


def skip(text: str, at: int) -> int:
    """Returns the position of the next character that is not white space."""
    found = SPACE.match(text, at)
    return found.end() if found else at


def spec_of(text: bytes, form: Form | None) -> TaskSpec:
    """Returns the spec in the text of one task. Raises InvalidTask."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InvalidTask("document", f"has more than {MAX_DOCUMENT_BYTES} bytes")
    if not text.lstrip().startswith(b"{"):
        raise InvalidTask("document", "is neither a JSON object nor an array of them")
    spec = read(text, form)
    return spec if spec.created_by else spec.model_copy(update={"created_by": INBOX})


def id_of(root: str, entry: Entry, form: Form | None, task: Text) -> TaskId:
    """Returns the id of a task of an entry. It is the same for each call, and ids sort in the order
    of writing.

    The text is part of the id, because another entry may have the same entry id after a failover.
    """
    ms, _, number = entry.id.partition("-")
    parts = (root, entry.id, str(task.at), form or "")
    digest = sha256("\n".join(parts).encode() + b"\n" + task.text).digest()
    # A DAG may have more tasks than there are positions.
    place = min(task.at, (1 << TASK_BITS) - 1)
    order = min(int(number), (1 << ENTRY_BITS) - 1) << TASK_BITS | place
    low = (order & 0xFF) << HASH_BITS | int.from_bytes(digest[:8]) >> 64 - HASH_BITS
    high = min(int(ms), LATEST_MS) << 16 | 0x7 << 12 | order >> 8
    return TaskId.from_ulid(ulid_of(high << 64 | 0x2 << 62 | low << 10))
