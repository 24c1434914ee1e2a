"""A task written in each of the forms."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from rqueue.errors import InvalidTask
from rqueue.task.attempt.outcome import AttemptRecord, Reason
from rqueue.task.forms import FORMS, Form, read, view
from rqueue.task.ids import DagId, TaskId, new_dag_id, new_task_id
from rqueue.task.spec import TaskSpec
from rqueue.task.state import State
from rqueue.task.task import Claim, Task

FIXTURES = Path(__file__).parents[2] / "fixtures"
A = json.loads((FIXTURES / "document_a.json").read_text())
B = yaml.safe_load((FIXTURES / "document_b.yaml").read_text())
C = json.loads((FIXTURES / "document_c.json").read_text())
DAG = DagId.from_ulid("01M7JXGHYQFEXSDW8817Z4DH00")
NOW = datetime(2026, 2, 8, 9, tzinfo=UTC)


def a_task(state: State = State.READY, *, spec: TaskSpec | None = None, **fields: object) -> Task:
    return Task.of(
        id=new_task_id(),
        spec=spec or TaskSpec.of(type="code"),
        state=state,
        created_at=NOW,
        **fields,
    )


def a_claim() -> Claim:
    return Claim(
        agent_id="coder-1",
        claimed_at=NOW,
        heartbeat_at=NOW,
        lease_expires_at=NOW + timedelta(seconds=30),
    )


def test_a_new_task_of_document_a_is_shown_as_it_was_given() -> None:
    shown = view(a_task(spec=read(A)), "A")

    assert {**shown, "result": A["result"]} == {
        **A,
        "status": "pending",
        "availableAt": None,
        "cancelledAt": None,
        "cancelReason": None,
    }


def test_a_new_task_of_document_b_is_shown_as_it_was_given() -> None:
    shown = view(a_task(State.PENDING, spec=read(B)), "B")["task"]
    assert isinstance(shown, dict)

    for name, value in B["task"].items():
        if isinstance(value, dict):
            inner = shown[name]
            assert isinstance(inner, dict)
            assert {**inner, **value} == inner
        else:
            assert shown[name] == value


def test_a_new_task_of_document_c_is_shown_as_it_was_given() -> None:
    assert view(a_task(spec=read(C), available_at=NOW), "C") == C


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("state", State)
def test_every_state_has_a_view_in_every_form_that_is_json(form: Form, state: State) -> None:
    task = a_task(
        state,
        claim=a_claim(),
        spec=read(B),
        failure_history=[AttemptRecord(attempt=1, reason=Reason.TIMEOUT, at=NOW)],
    )

    assert json.loads(json.dumps(view(task, form))) == view(task, form)


@pytest.mark.parametrize(
    ("state", "in_a", "in_b", "in_c"),
    [
        (State.CREATED, "pending", "created", "pending"),
        (State.PENDING, "pending", "pending", "pending"),
        (State.READY, "pending", "ready", "pending"),
        (State.RETRYING, "pending", "retrying", "pending"),
        (State.CLAIMED, "in-progress", "claimed", "leased"),
        (State.RUNNING, "in-progress", "running", "running"),
        (State.VALIDATING, "in-progress", "validating", "running"),
        (State.FAILED, "in-progress", "failed", "failed"),
        (State.COMPLETED, "completed", "completed", "completed"),
        (State.DEAD_LETTERED, "dead-letter", "dead_lettered", "dead"),
        (State.CANCELLED, "cancelled", "cancelled", "cancelled"),
    ],
)
def test_each_form_has_its_own_names_of_states(
    state: State, in_a: str, in_b: str, in_c: str
) -> None:
    task = a_task(state)
    nested = view(task, "B")["task"]
    assert isinstance(nested, dict)

    assert (view(task, "A")["status"], nested["status"], view(task, "C")["status"]) == (
        in_a,
        in_b,
        in_c,
    )


@pytest.mark.parametrize(
    ("state", "result", "shown"),
    [
        (State.RUNNING, None, None),
        (
            State.COMPLETED,
            {"output": "x", "decisionReport": {"why": "y"}},
            {"status": "success", "output": "x", "decisionReport": {"why": "y"}},
        ),
        (State.COMPLETED, [1], {"status": "success", "output": [1], "decisionReport": None}),
        (State.DEAD_LETTERED, None, {"status": "failed", "output": None, "decisionReport": None}),
    ],
)
def test_document_a_wraps_results(state: State, result: object, shown: object) -> None:
    assert view(a_task(state, result=result), "A")["result"] == shown


def test_task_ids_are_shown_as_uuids_where_the_document_has_uuids() -> None:
    task, dag, before = new_task_id(), new_dag_id(), new_task_id()
    spec = TaskSpec.of(type="code", dag_id=dag, depends_on=[before])
    shown = Task.of(id=task, spec=spec, state="READY", created_at=NOW)

    assert view(shown, "A")["id"] == view(shown, "C")["id"] == str(task.uuid)
    assert view(shown, "A")["dependencies"] == [str(before.uuid)]
    assert view(shown, "C")["workflow_id"] == str(dag.uuid)
    assert view(shown)["id"] == task == TaskId.parse(str(view(shown, "C")["id"]))


@pytest.mark.parametrize(
    ("named", "joined", "shown"),
    [
        (None, None, None),
        (None, DAG, DAG),
        ("their-own", DAG, "their-own"),
        ("their-own", None, "their-own"),
    ],
)
def test_the_shown_dag_is_the_given_one_or_that_of_the_task(
    named: str | None, joined: DagId | None, shown: str | None
) -> None:
    spec = TaskSpec.of(type="code", dag_id=named)
    task = Task.of(id=new_task_id(), spec=spec, state="READY", dag=joined, created_at=NOW)
    nested = view(task, "B")["task"]
    assert isinstance(nested, dict)

    assert nested["dag_id"] == shown
    assert view(task, "C")["workflow_id"] == (str(DAG.uuid) if shown == DAG else shown)


def test_a_row_c_shows_its_lease_and_its_last_error() -> None:
    shown = view(
        a_task(State.RUNNING, claim=a_claim(), last_error="boom", failure_reason="error"), "C"
    )

    assert shown["lease_owner"] == "coder-1"
    assert shown["lease_expires_at"] == "2026-02-08T09:00:30Z"
    assert shown["error_info"] == {"reason": "error", "message": "boom"}


def test_the_native_view_is_flat_and_names_the_tier() -> None:
    shown = view(a_task(spec=TaskSpec.of(type="code", priority=5), attempts=2))

    assert (shown["type"], shown["priority"], shown["tier"]) == ("code", 5, "critical")
    assert (shown["state"], shown["attempts"]) == ("READY", 2)


def test_no_name_is_both_a_field_of_spec_and_state() -> None:
    assert set(TaskSpec.model_fields).isdisjoint(set(Task.model_fields) - {"spec"})


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InvalidTask, match="form"):
        view(a_task(), "D")  # type: ignore[arg-type] # the mistake is the test
