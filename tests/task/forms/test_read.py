"""The three documents, accepted unchanged."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from rqueue.errors import InvalidTask
from rqueue.task.attempt.outcome import Reason
from rqueue.task.forms import Form, form_of, read, view
from rqueue.task.ids import DagId, TaskId, new_task_id
from rqueue.task.state import State
from rqueue.task.task import Task

FIXTURES = Path(__file__).parents[2] / "fixtures"
A = json.loads((FIXTURES / "document_a.json").read_text())
B = yaml.safe_load((FIXTURES / "document_b.yaml").read_text())
C = json.loads((FIXTURES / "document_c.json").read_text())
NATIVE = {"type": "code", "priority": 20}


def test_document_a_is_read_unchanged() -> None:
    spec = read((FIXTURES / "document_a.json").read_text())

    assert (spec.type, spec.priority, spec.max_attempts) == ("eng-backend", 20, 3)
    assert spec.external_id == "0b6ee0b2-6f9e-4ef0-8a5b-6a3f3d4c9b11"
    assert spec.depends_on == ("task-id-1", "task-id-2")
    assert spec.payload == A["payload"]
    assert spec.timeout_sec == 3600
    assert spec.retry is not None
    assert (spec.retry.initial_delay_sec, spec.retry.jitter_kind) == (60, "additive")
    assert spec.idempotency_key == A["idempotencyKey"]


def test_document_b_is_read_unchanged() -> None:
    spec = read((FIXTURES / "document_b.yaml").read_text())

    assert (spec.type, spec.title) == ("code", "Fix auth middleware CORS handling")
    assert isinstance(spec.dag_id, DagId)
    assert all(isinstance(found, TaskId) for found in spec.depends_on)
    assert spec.external_id == B["task"]["id"]
    assert (spec.max_cost_usd, spec.max_duration_sec) == (0.5, 300)
    assert spec.required_capabilities == ("code-execution", "web-search")
    assert spec.fallback_models == ("claude-haiku",)
    assert spec.deadline == datetime(2026, 2, 9, 12, tzinfo=UTC)
    assert spec.retry is not None
    assert spec.retry.retry_on[-1] is Reason.INVALID_OUTPUT
    assert (spec.output_type, spec.validation) == ("code", "json-schema")
    assert (spec.heartbeat_interval_sec, spec.created_by) == (30, "agent:orchestrator")
    assert spec.tags == ("repo:myapp", "sprint:12")


def test_document_b_may_require_several_validators() -> None:
    output = {
        "validation": ["regex", "decision-report"],
        "validation_schema": {"regex": "a"},
    }

    spec = read({"task": {"type": "code", "output": output}})

    assert spec.validation == ("regex", "decision-report")
    task = Task(
        id=new_task_id(), spec=spec, state=State.READY, created_at=datetime(2026, 2, 8, tzinfo=UTC)
    )
    shown: Any = view(task, "B")
    assert {name: shown["task"]["output"][name] for name in output} == output


def test_document_c_is_read_unchanged() -> None:
    spec = read((FIXTURES / "document_c.json").read_text())

    assert (spec.type, spec.agent_name) == ("generate_fitment", "FitmentAgent")
    assert (spec.priority, spec.max_attempts) == (0, 3)
    assert spec.dag_id == "d9428888-122b-41e1-b85c-61c2b6a3f5d1"
    assert spec.at == datetime(2026, 2, 8, 9, tzinfo=UTC)
    assert spec.payload == C["payload"]


def test_the_arguments_of_create_task_are_read() -> None:
    spec = read(
        {
            "workflow_id": "d9428888-122b-41e1-b85c-61c2b6a3f5d1",
            "agent_name": "FitmentAgent",
            "task_type": "generate_fitment",
            "payload": {},
            "priority": 3,
            "max_attempts": 3,
        }
    )

    assert spec.priority == 70


@pytest.mark.parametrize("document", [{"task_type": "x"}, {"type": "x", "maxRetries": 2}])
def test_missing_fields_have_the_defaults_of_a_spec(document: dict[str, object]) -> None:
    spec = read(document)

    assert (spec.priority, spec.retry, spec.external_id) == (50, None, None)


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (A, "A"),
        ({"type": "x", "maxRetries": 2}, "A"),
        (B, "B"),
        (C, "C"),
        ({"workflow_id": "w"}, "C"),
        (NATIVE, "native"),
    ],
)
def test_a_form_is_recognised_by_its_fields(document: dict[str, object], form: Form) -> None:
    assert form_of(document) == form


def test_a_form_can_be_named() -> None:
    assert read({"type": "x", "priority": 10}, form="A").priority == 0
    assert read({"type": "x", "priority": 10}, form="B").priority == 10
    assert read({"type": "x", "priority": 10}).priority == 10
    with pytest.raises(InvalidTask, match="form"):
        read({"type": "x"}, form="D")  # type: ignore[arg-type] # the mistake is the test


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"claimedBy": "me"}, "claimedBy"),
        ({"retries": 1}, "retries"),
        ({"lastError": "x"}, "lastError"),
        ({"completedAt": "2026-02-08T09:00:00Z"}, "completedAt"),
        ({"status": "completed"}, "status"),
        ({"result": {"status": "success"}}, "result.status"),
        ({"result": {"surprise": 1}}, "result.surprise"),
        ({"result": "done"}, "result"),
        ({"surprise": 1}, "surprise"),
        ({"priority": 0}, "priority"),
        ({"priority": 11}, "priority"),
        ({"backoffSeconds": -1}, "backoffSeconds.initial_delay_sec"),
        ({"type": "no name"}, "type"),
    ],
)
def test_a_document_a_that_has_run_or_is_wrong_is_refused(
    change: dict[str, object], path: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        read({**A, **change})

    assert refused.value.field == path


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"status": "running"}, "task.status"),
        ({"attempts": 1}, "task.attempts"),
        ({"blocked_by": ["task_1"]}, "task.blocked_by"),
        ({"claim": {"agent_id": "a"}}, "task.claim.agent_id"),
        ({"claim": {"lock": 1}}, "task.claim.lock"),
        ({"started_at": "2026-02-08T09:00:00Z"}, "task.started_at"),
        ({"cost_usd": 0.1}, "task.cost_usd"),
        ({"tokens_used": {"input": 5}}, "task.tokens_used.input"),
        ({"output": {"data": {"a": 1}}}, "task.output.data"),
        ({"spec": {"surprise": 1}}, "task.spec.surprise"),
        ({"spec": {"constraints": {"max_cost": 1}}}, "task.spec.constraints.max_cost"),
        ({"surprise": 1}, "task.surprise"),
        ({"priority": 101}, "priority"),
        ({"retry": {"strategy": "never"}}, "retry.strategy"),
    ],
)
def test_a_document_b_that_has_run_or_is_wrong_is_refused(
    change: dict[str, object], path: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        read({"task": {**B["task"], **change}})

    assert refused.value.field == path


def test_a_field_beside_task_in_a_document_b_is_refused() -> None:
    with pytest.raises(InvalidTask, match="surprise"):
        read({**B, "surprise": 1})
    with pytest.raises(InvalidTask, match="task: is a mapping"):
        read({"task": "code"})


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"status": "leased"}, "status"),
        ({"attempts": 2}, "attempts"),
        ({"lease_owner": "host-1"}, "lease_owner"),
        ({"error_info": {"message": "x"}}, "error_info"),
        ({"priority": 4}, "priority"),
        ({"available_at": "2026-02-08 09:00:00"}, "at"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_row_c_that_has_run_or_is_wrong_is_refused(change: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        read({**C, **change})

    assert refused.value.field == path
