"""The file formats of `rqueue archive export`: JSON Lines, CSV and Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

from rqueue.errors import ConfigError
from rqueue.task.forms import view

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from rqueue.task.task import Task

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
# First characters that make a spreadsheet read a cell as a formula. Some programs convert the
# full-width forms, and skip leading white space.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
NO_PYARROW = "parquet needs pyarrow: pip install 'rqueue[parquet]'"


def columns() -> dict[str, Kind]:
    """Every column and its kind; structured values are JSON texts."""
    from rqueue.task.spec import TaskSpec  # noqa: PLC0415 - completion needs no models
    from rqueue.task.task import Task  # noqa: PLC0415

    own = [name for name, field in Task.model_fields.items() if not field.exclude]
    names = [*FIRST, *own, *TaskSpec.model_fields, "tier"]
    return {name: KIND_OF.get(name, "json") for name in dict.fromkeys(names) if name != "spec"}


class Sheet(Protocol):
    """A file that tasks are written to in batches; `close` completes it."""

    def write(self, tasks: Sequence[Task]) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """One document on each line, as printed by `rqueue task --json`."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, tasks: Sequence[Task]) -> None:
        """Adds lines."""
        for task in tasks:
            self.file.write(json.dumps(view(task)) + "\n")

    def close(self) -> None:
        """Does nothing: the file has no footer."""


class Csv:
    """CSV with a heading, in which no text can be read as a formula."""

    def __init__(self, file: TextIO) -> None:
        self.columns = columns()
        # Line ends as in RFC 4180; the writer quotes cells that contain either character.
        self.rows = csv.writer(file, lineterminator="\r\n")
        self.rows.writerow(self.columns)

    def write(self, tasks: Sequence[Task]) -> None:
        """Adds rows."""
        for task in tasks:
            document = view(task)
            self.rows.writerow([cell(document[name], kind) for name, kind in self.columns.items()])

    def close(self) -> None:
        """Does nothing: the file has no footer."""


class Parquet:
    """A Parquet file; each batch becomes a row group."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow  # noqa: PLC0415 - an extra
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError("format", NO_PYARROW) from error
        self.columns = columns()
        self.arrow: Any = pyarrow
        kinds: dict[Kind, Any] = {
            "text": pyarrow.string(),
            "json": pyarrow.string(),
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "time": pyarrow.timestamp("ms", tz="UTC"),
        }
        self.schema = pyarrow.schema([(name, kinds[kind]) for name, kind in self.columns.items()])
        self.file = ParquetWriter(str(path), self.schema, compression="zstd")

    def write(self, tasks: Sequence[Task]) -> None:
        """Adds a row group."""
        documents = [view(task) for task in tasks]
        found = {
            name: [typed(document[name], kind) for document in documents]
            for name, kind in self.columns.items()
        }
        self.file.write_table(self.arrow.table(found, schema=self.schema))

    def close(self) -> None:
        """Writes the footer of the file."""
        self.file.close()


def cell(value: JsonValue, kind: Kind) -> str:
    """A value as a CSV cell."""
    if value is None:
        return ""
    if kind == "json":
        return json.dumps(value)
    text = str(value)
    if kind != "text":
        return text
    # Surrogates cannot be encoded: they are written as escapes.
    text = text.encode(errors="backslashreplace").decode()
    return f"'{text}" if text.startswith(FORMULA) else text


def typed(value: JsonValue, kind: Kind) -> Any:
    """A value as its column's type."""
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
