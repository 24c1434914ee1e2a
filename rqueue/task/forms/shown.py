"""Ids and instants as the documents' forms write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import InvalidTask
from rqueue.task.ids import TaskId

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.task.ids import DagId
    from rqueue.task.task import Task


def own_id(task: Task) -> str:
    """The external id, else ours; ours are written as UUIDs."""
    return shown_id(TaskId, task.spec.external_id or task.id)


def owning_dag(task: Task) -> str | None:
    """The DAG that its producer named, else the one that it is in; None for a single task."""
    return task.spec.dag_id or task.dag


def shown_id(kind: type[TaskId] | type[DagId], text: str) -> str:
    """One of our ids as a UUID, an external id unchanged."""
    try:
        return str(kind.parse(text).uuid)
    except InvalidTask:
        return text


def moment(instant: datetime | None) -> str | None:
    """An instant in ISO 8601, UTC written as Z."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")
