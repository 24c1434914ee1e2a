"""The attempts of a task that failed, as lines of COPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqueue.archive.copying import MAX_ERROR, MAX_NAME, NULL, escaped
from rqueue.model.lane import POINT
from rqueue.store.values import UNREADABLE, failure_in

if TYPE_CHECKING:
    from rqueue.model.attempt import AttemptRecord


class Attempts(NamedTuple):
    """A line for each attempt that failed; the error and the model of the newest."""

    lines: list[str]
    error: str
    model: str


def failure_lines(id: str, type: str, records: Sequence[bytes]) -> Attempts:
    """The attempts of a task; records that cannot be read stay in the raw bytes alone."""
    lines: list[str] = []
    error = model = NULL
    for data in records:
        try:
            record = failure_in(data)
        except UNREADABLE:
            continue
        error = escaped(record.error[:MAX_ERROR])
        model = NULL if record.model is None else escaped(record.model[:MAX_NAME])
        lines.append(failure_line(id, type, record, error=error, model=model))
    return Attempts(lines, error, model)


def failure_line(id: str, type: str, record: AttemptRecord, *, error: str, model: str) -> str:
    """One attempt; `type`, `error` and `model` are escaped already."""
    columns = (
        id,
        str(record.epoch),
        str(record.attempt),
        type,
        NULL if record.agent is None else escaped(record.agent[:MAX_NAME]),
        record.reason.value,
        error,
        NULL if record.duration_sec is None else repr(record.duration_sec),
        str(round(record.cost_usd * POINT)),
        str(record.tokens),
        model,
        NULL if record.at is None else record.at.isoformat(),
    )
    return "\t".join(columns) + "\n"
