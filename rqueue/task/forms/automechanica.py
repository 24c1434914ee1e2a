"""Form C, AutoMechanica's table row: flat, snake_case, priorities 0 to 3, six statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.task.forms.document import Document, Parts, moment, own_id, owning_dag, shown_id
from rqueue.task.ids import DagId
from rqueue.task.priority import from_native, to_native
from rqueue.task.spec import TaskSpec
from rqueue.task.state import State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.task import Task

NAMES = {
    "id": "external_id",
    "workflow_id": "dag_id",
    "agent_name": "agent_name",
    "task_type": "type",
    "payload": "payload",
    "max_attempts": "max_attempts",
    "available_at": "at",
}
STATUS = {
    State.CREATED: "pending",
    State.PENDING: "pending",
    State.READY: "pending",
    State.RETRYING: "pending",
    State.CLAIMED: "leased",
    State.RUNNING: "running",
    State.VALIDATING: "running",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.DEAD_LETTERED: "dead",
    State.CANCELLED: "cancelled",
}


def read(document: Document) -> TaskSpec:
    """The spec of a row, or of the arguments of createTask; a row that has run is refused."""
    parts = Parts(document)
    fields = parts.fields(NAMES)
    priority = parts.take("priority")
    if priority is not None:
        fields["priority"] = to_native(priority, "0-3")
    parts.expect("status", "pending", "created")
    parts.expect("attempts", 0)
    for name in ("lease_owner", "lease_expires_at", "error_info"):
        parts.expect(name)
    parts.ignore("created_at", "updated_at")
    parts.end()
    return TaskSpec.parse(fields)


def view(task: Task) -> dict[str, JsonValue]:
    """The task as a row of document C."""
    spec, claim, dag = task.spec, task.claim, owning_dag(task)
    return {
        "id": own_id(task),
        "workflow_id": None if dag is None else shown_id(DagId, dag),
        "agent_name": spec.agent_name,
        "task_type": spec.type,
        "payload": spec.payload,
        "priority": from_native(spec.priority, "0-3"),
        "status": STATUS[task.state],
        "attempts": task.attempts,
        "max_attempts": spec.max_attempts,
        "available_at": moment(task.available_at or task.created_at),
        "lease_owner": claim.agent_id if claim else None,
        "lease_expires_at": moment(claim.lease_expires_at) if claim else None,
        "error_info": error_info(task),
        "created_at": moment(task.created_at),
        "updated_at": moment(task.updated_at or task.created_at),
    }


def error_info(task: Task) -> JsonValue:
    """The last error, if any."""
    if task.last_error is None and task.failure_reason is None:
        return None
    return {"reason": task.failure_reason, "message": task.last_error}
