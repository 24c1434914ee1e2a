"""Single values as they are stored, read with a doubt: the bytes may be anyone's."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rqueue.errors import InvalidTask
from rqueue.model.attempt import AttemptRecord
from rqueue.model.codec import MAX_INT, decode
from rqueue.model.ids import DagId
from rqueue.model.spec import known

# What reading bytes that nobody checked may raise; pydantic's own error is a ValueError.
UNREADABLE = (
    InvalidTask, ValueError, LookupError, ArithmeticError, AttributeError, TypeError,
    RecursionError,
)  # fmt: skip
ENTRY = re.compile("([0-9]+)-[0-9]+")
# The letters of flags are small, a ULID is not.
DAG = re.compile("[0-9A-Z]+")


def words(value: object) -> str:
    """A text of a reply; where it is no UTF-8, that is shown."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def holder_in(text: str) -> tuple[int, int, str]:
    """When a task was claimed, when it was started (0 for not yet), and by whom."""
    claimed, started, owner = text.split(" ")
    return natural(claimed), natural(started), owner


def dag_in(flags: str) -> DagId | None:
    """The DAG that a task's flags name, if it has one."""
    found = DAG.search(flags)
    return DagId.parse(found[0]) if found else None


def failure_in(record: bytes) -> AttemptRecord:
    """The record of an attempt, without what only a newer release knows."""
    found: Any = decode(record, field="failures")
    return AttemptRecord.parse(known(AttemptRecord, found))


def life(more: str) -> int:
    """The number of a task's life; nothing more is kept of one in its first."""
    found: Any = decode(more.encode(), field="more") if more else {}
    return natural(found.get("life", 1))


def natural(number: str | bytes) -> int:
    """A whole number from 0 on that scripts can hold."""
    found = int(number)
    if not 0 <= found <= MAX_INT:
        raise ValueError("out of range")
    return found


def entry_ms(entry: str) -> int:
    """When an entry was put into the stream."""
    found = ENTRY.fullmatch(entry)
    if found is None:
        raise ValueError("no id of an entry")
    return natural(found[1])


def moment(ms: int) -> datetime:
    """A time of the server as an instant."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
