"""Ended tasks as tables for other programs: which columns, and what stands in a cell."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

from rqueue.model.forms import view
from rqueue.model.spec import TaskSpec
from rqueue.model.task import Task

if TYPE_CHECKING:
    from pydantic import JsonValue

Kind = Literal["text", "integer", "number", "boolean", "time", "json"]

KINDS: dict[Kind, tuple[str, ...]] = {
    "text": (
        "id", "state", "type", "tier", "title", "prompt", "on_deadline", "agent_name", "limit_key",
        "parent_id", "dag", "dag_id", "name", "trigger", "idempotency_key", "dedupe", "if_exists",
        "unique", "external_id", "output_type", "created_by", "cancel_reason", "last_error",
        "failure_reason", "unreadable", "resolution",
    ),
    "integer": ("life", "attempts", "reclaims", "parks", "epoch", "max_attempts"),
    "number": (
        "priority", "priority_boost_per_minute", "effective_priority", "dependency_boost",
        "cost_usd", "expires_sec", "expected_duration_sec", "delay_sec", "timeout_sec",
        "max_duration_sec", "heartbeat_interval_sec", "max_cost_usd", "estimated_cost_usd",
        "result_ttl_sec",
    ),
    "boolean": ("poison_pill", "reviewed"),
    "time": (
        "created_at", "updated_at", "available_at", "started_at", "completed_at", "cancelled_at",
        "deadline", "at",
    ),
}  # fmt: skip
KIND_OF: dict[str, Kind] = {name: kind for kind, names in KINDS.items() for name in names}
FIRST = ("id", "type", "state", "life", "created_at", "started_at", "updated_at")
# What a spreadsheet would take for a formula, were it the first character of a cell: wide forms are
# narrowed by some, and blanks passed over.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def columns() -> dict[str, Kind]:
    """Every column and what it holds; what has parts is a text of JSON."""
    own = [name for name, field in Task.model_fields.items() if not field.exclude]
    names = [*FIRST, *own, *TaskSpec.model_fields, "tier"]
    return {name: KIND_OF.get(name, "json") for name in dict.fromkeys(names) if name != "spec"}


class Sheet(Protocol):
    """Where tasks are written, some at a time; `close` makes it whole."""

    def write(self, tasks: Sequence[Task]) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """A document a line, as `rqueue task --json` has it."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, tasks: Sequence[Task]) -> None:
        """Adds lines."""
        for task in tasks:
            self.file.write(json.dumps(view(task)) + "\n")

    def close(self) -> None:
        """Nothing is missing at its end."""


class Csv:
    """Columns with a heading, for spreadsheets: no text in it is taken for a formula."""

    def __init__(self, file: TextIO) -> None:
        self.columns = columns()
        # Lines end as RFC 4180 has it, and cells with either character of that are quoted.
        self.rows = csv.writer(file, lineterminator="\r\n")
        self.rows.writerow(self.columns)

    def write(self, tasks: Sequence[Task]) -> None:
        """Adds rows."""
        for task in tasks:
            document = view(task)
            self.rows.writerow([cell(document[name], kind) for name, kind in self.columns.items()])

    def close(self) -> None:
        """Nothing is missing at its end."""


def cell(value: JsonValue, kind: Kind) -> str:
    """What stands in a cell of CSV."""
    if value is None:
        return ""
    if kind == "json":
        return json.dumps(value)
    text = str(value)
    if kind != "text":
        return text
    # CSV is bytes in the end: what is no character is shown as such.
    text = text.encode(errors="backslashreplace").decode()
    return f"'{text}" if text.startswith(FORMULA) else text


def typed(value: JsonValue, kind: Kind) -> Any:
    """What stands in a column that has a type."""
    if value is None:
        return None
    match kind:
        case "json":
            return json.dumps(value)
        case "time":
            return datetime.fromisoformat(str(value))
        case "text":
            return str(value).encode(errors="backslashreplace").decode()
        case _:
            return value
