"""Ended tasks as Parquet; the only module that imports pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.cli.archive.table import Kind, columns, typed
from rqueue.errors import ConfigError
from rqueue.task.forms import view

if TYPE_CHECKING:
    from pathlib import Path

    from rqueue.task.task import Task

WAY_OUT = "parquet needs pyarrow: pip install 'rqueue[parquet]'"


class Parquet:
    """A Parquet file; each batch becomes a row group."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow  # noqa: PLC0415 - an extra
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError("format", WAY_OUT) from error
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
