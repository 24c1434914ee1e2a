"""How ids and instants look in the documents' forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import InvalidTask
from rqueue.model.ids import TaskId

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.ids import DagId
    from rqueue.model.task import Task


def own_id(task: Task) -> str:
    """The id its creator gave it, else ours; ours are shown as UUIDs."""
    return shown_id(TaskId, task.spec.external_id or task.id)


def owning_dag(task: Task) -> str | None:
    """The DAG its creator named, else the one that it is in; None for a task that is alone."""
    return task.spec.dag_id or task.dag


def shown_id(kind: type[TaskId] | type[DagId], text: str) -> str:
    """One of our ids as a UUID, a caller's own id as it stands."""
    try:
        return str(kind.parse(text).uuid)
    except InvalidTask:
        return text


def moment(instant: datetime | None) -> str | None:
    """An instant in ISO 8601, UTC written as Z."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")
