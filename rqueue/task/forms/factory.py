"""Form B, Task Queue & Work Distribution: nested under `task`, the native scale, eleven states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.task.attempt.outcome import Reason
from rqueue.task.attempt.retry import FACTORY
from rqueue.task.forms.document import Document, Parts, moment, owning_dag
from rqueue.task.spec import TaskSpec

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.task import Task

SAME = (
    "idempotency_key",
    "parent_id",
    "dag_id",
    "type",
    "title",
    "payload",
    "priority",
    "priority_boost_per_minute",
    "deadline",
    "depends_on",
    "max_attempts",
    "retry",
    "created_by",
    "tags",
)
LIMITS = (
    "max_cost_usd",
    "max_duration_sec",
    "required_capabilities",
    "model_preferences",
    "fallback_models",
)
OUTPUT = {
    "type": "output_type",
    "validation": "validation",
    "validation_schema": "validation_schema",
    "artifacts": "artifacts",
}
KEPT = ("blocked_by", "started_at", "completed_at", "progress", "failure_reason", "retry_at")
RETRY_ON = (Reason.TIMEOUT, Reason.CRASH, Reason.RATE_LIMIT, Reason.INVALID_OUTPUT)
AGEING = 0.1
HEARTBEAT_SEC = 30.0


def read(document: Document) -> TaskSpec:
    """The spec of a document B, with or without its `task`; one that has run is refused."""
    whole = Parts(document)
    parts = whole.inner("task") if "task" in document else whole
    fields = parts.fields({name: name for name in SAME})
    fields |= parts.fields({"id": "external_id", "estimated_cost": "estimated_cost_usd"})
    fields |= read_spec(parts.inner("spec"))
    fields |= read_output(parts.inner("output"))
    fields |= read_claim(parts.inner("claim"))
    check_new(parts)
    parts.end()
    whole.end()
    return TaskSpec.parse(fields)


def read_spec(spec: Parts) -> dict[str, object]:
    """The fields of `spec`, with its constraints."""
    fields = spec.fields({"prompt": "prompt", "context_refs": "context_refs"})
    limits = spec.inner("constraints")
    fields |= limits.fields({name: name for name in LIMITS})
    limits.end()
    spec.end()
    return fields


def read_output(output: Parts) -> dict[str, object]:
    """The fields of `output`, which has no data yet."""
    fields = output.fields(OUTPUT)
    output.expect("data")
    output.end()
    return fields


def read_claim(claim: Parts) -> dict[str, object]:
    """A new task has no claim; only its heartbeat interval may be given."""
    for name in ("agent_id", "claimed_at", "heartbeat_at"):
        claim.expect(name)
    fields = claim.fields({"heartbeat_interval_sec": "heartbeat_interval_sec"})
    claim.end()
    return fields


def check_new(parts: Parts) -> None:
    """Checks that the queue's own fields are as in a new task."""
    parts.expect("status", "pending", "created", "PENDING", "CREATED")
    parts.expect("attempts", 0)
    parts.expect("cost_usd", 0)
    parts.expect("poison_pill", False)
    parts.expect("failure_history")
    for name in KEPT:
        parts.expect(name)
    tokens = parts.inner("tokens_used")
    tokens.expect("input", 0)
    tokens.expect("output", 0)
    tokens.end()
    parts.ignore("created_at")


def view(task: Task) -> dict[str, JsonValue]:
    """The task as document B writes it, with the fields its code uses beside its schema."""
    spec = task.spec.model_dump(mode="json")
    return {
        "task": {
            "id": task.spec.external_id or str(task.id),
            **{name: spec[name] for name in SAME if name != "retry"},
            "dag_id": owning_dag(task),
            "priority_boost_per_minute": boost(task),
            "spec": {
                "prompt": spec["prompt"],
                "context_refs": spec["context_refs"],
                "constraints": {name: spec[name] for name in LIMITS},
            },
            "retry": retry_of(task),
            "output": {
                **{theirs: spec[ours] for theirs, ours in OUTPUT.items()},
                "artifacts": [*task.spec.artifacts, *(one.reference for one in task.attached)],
                "data": task.result,
            },
            **lifecycle(task),
        }
    }


def lifecycle(task: Task) -> dict[str, JsonValue]:
    """The fields that the queue sets."""
    claim, interval = task.claim, task.spec.heartbeat_interval_sec
    history: list[JsonValue] = [record.model_dump(mode="json") for record in task.failure_history]
    return {
        "blocked_by": list(task.blocked_by),
        "status": task.state.value.lower(),
        "claim": {
            "agent_id": claim.agent_id if claim else None,
            "claimed_at": moment(claim.claimed_at) if claim else None,
            "heartbeat_at": moment(claim.heartbeat_at) if claim else None,
            "heartbeat_interval_sec": interval or HEARTBEAT_SEC,
        },
        "attempts": task.attempts,
        "created_at": moment(task.created_at),
        "started_at": moment(task.started_at),
        "completed_at": moment(task.completed_at),
        "cost_usd": task.cost_usd,
        "tokens_used": task.tokens_used.model_dump(),
        "progress": task.progress,
        "failure_reason": task.failure_reason,
        "retry_at": moment(task.retry_at),
        "estimated_cost": task.spec.estimate_usd,
        "failure_history": history,
        "poison_pill": task.poison_pill,
    }


def retry_of(task: Task) -> dict[str, JsonValue]:
    """The task's retry policy, or the default, with B's reasons where all are retried."""
    policy = task.spec.retry or FACTORY
    shown: dict[str, JsonValue] = policy.model_dump(mode="json")
    shown["retry_on"] = [str(reason) for reason in policy.retry_on or RETRY_ON]
    return shown


def boost(task: Task) -> float:
    """The ageing rate, the task's or B's."""
    rate = task.spec.priority_boost_per_minute
    return AGEING if rate is None else rate
