"""Form A, the Task Queue Reference: flat, camelCase, priorities 1 to 10, five lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.task.attempt.retry import REFERENCE, RetryPolicy
from rqueue.task.forms.document import NOTHING, Document, Parts, moment, own_id, shown_id
from rqueue.task.ids import TaskId
from rqueue.task.priority import from_native, to_native
from rqueue.task.spec import TaskSpec
from rqueue.task.state import State

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.task import Task

NAMES = {
    "id": "external_id",
    "idempotencyKey": "idempotency_key",
    "type": "type",
    "dependencies": "depends_on",
    "payload": "payload",
    "timeout": "timeout_sec",
    "maxRetries": "max_attempts",
    "availableAt": "at",
}
KEPT = ("claimedBy", "claimedAt", "lastError", "completedAt", "cancelledAt", "cancelReason")
STATUS = {
    State.CREATED: "pending",
    State.PENDING: "pending",
    State.READY: "pending",
    State.RETRYING: "pending",
    State.CLAIMED: "in-progress",
    State.RUNNING: "in-progress",
    State.VALIDATING: "in-progress",
    State.FAILED: "in-progress",
    State.COMPLETED: "completed",
    State.DEAD_LETTERED: "dead-letter",
    State.CANCELLED: "cancelled",
}
TIMEOUT_SEC = 3600.0


def read(document: Document) -> TaskSpec:
    """The spec of a document A; one that has run already is refused."""
    parts = Parts(document)
    fields = parts.fields(NAMES)
    priority, seconds = parts.take("priority"), parts.take("backoffSeconds")
    if priority is not None:
        fields["priority"] = to_native(priority, "1-10")
    if seconds is not None:
        fields["retry"] = RetryPolicy.parse(
            {**REFERENCE.model_dump(exclude_defaults=True), "initial_delay_sec": seconds},
            within="backoffSeconds",
        )
    result = parts.inner("result")
    for name in ("status", "output", "decisionReport"):
        result.expect(name)
    result.end()
    parts.expect("retries", 0)
    parts.expect("status", "pending", "created")
    for name in KEPT:
        parts.expect(name)
    parts.ignore("createdAt")
    parts.end()
    return TaskSpec.parse(fields)


def view(task: Task) -> dict[str, JsonValue]:
    """The task as document A writes it, with the fields its code uses beside its schema."""
    spec, claim, retry = task.spec, task.claim, task.spec.retry or REFERENCE
    return {
        "id": own_id(task),
        "idempotencyKey": spec.idempotency_key,
        "type": spec.type,
        "priority": from_native(spec.priority, "1-10"),
        "dependencies": [shown_id(TaskId, found) for found in spec.depends_on],
        "payload": spec.payload,
        "status": STATUS[task.state],
        "createdAt": moment(task.created_at),
        "claimedBy": claim.agent_id if claim else None,
        "claimedAt": moment(claim.claimed_at) if claim else None,
        "availableAt": moment(task.available_at),
        "timeout": spec.time_limit_sec or TIMEOUT_SEC,
        "retries": task.attempts,
        "maxRetries": spec.max_attempts,
        "backoffSeconds": retry.initial_delay_sec,
        "lastError": task.last_error,
        "completedAt": moment(task.completed_at),
        "cancelledAt": moment(task.cancelled_at),
        "cancelReason": task.cancel_reason,
        "result": result_of(task),
    }


def result_of(task: Task) -> JsonValue:
    """A's envelope; a result with a decision report is one already."""
    if task.state not in (State.COMPLETED, State.DEAD_LETTERED):
        return None
    status = "success" if task.state is State.COMPLETED else "failed"
    if isinstance(task.result, dict) and "decisionReport" in task.result:
        return {"output": None, **task.result, "status": status}
    output = None if task.result in NOTHING else task.result
    return {"status": status, "output": output, "decisionReport": None}
