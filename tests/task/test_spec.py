"""Fields of a spec: valid and invalid ones, and the stored definition."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from rqueue.errors import InvalidTask
from rqueue.task.attempt.retry import RetryPolicy
from rqueue.task.fields import YEAR_SEC
from rqueue.task.ids import DagId, TaskId, new_dag_id, new_task_id
from rqueue.task.spec import TaskSpec

NOW = datetime(2026, 2, 8, 9, tzinfo=UTC)


def a_spec(**fields: object) -> TaskSpec:
    return TaskSpec.parse({"type": "code", **fields})


def test_a_type_is_all_that_is_needed() -> None:
    spec = TaskSpec.of(type="code")

    assert (spec.payload, spec.priority, spec.max_attempts, spec.retry) == ({}, 50.0, 3, None)
    assert spec.definition() == b'{"t":"code"}'


def test_a_full_spec_is_read_back_from_its_definition() -> None:
    spec = a_spec(
        payload={"a": [1, {"b": None}]},
        priority=12.5,
        deadline="2026-02-09T13:00:00+01:00",
        depends_on=[new_task_id(), "deploy-1"],
        dag_id=new_dag_id(),
        parent_id=new_task_id(),
        retry={"strategy": "list", "delays": [1, 5], "retry_on": ["timeout"]},
        tags=["repo:myapp", "sprint:12"],
        created_by="human:adam",
        validation="json-schema",
        validation_schema={"type": "object"},
        max_cost_usd=0.5,
        prompt="line\nline",
    )

    restored = TaskSpec.from_definition(spec.definition())

    assert restored == spec
    assert restored.deadline == datetime(2026, 2, 9, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"type": "a b"}, "type"),
        ({"type": ""}, "type"),
        ({"type": 5}, "type"),
        ({"type": "a" * 129}, "type"),
        ({"agent_name": "Agent/1"}, "agent_name"),
        ({"required_capabilities": ["ok", "no:colon"]}, "required_capabilities[1]"),
        ({"tags": ["sp ace"]}, "tags[0]"),
        ({"tags": "abc"}, "tags"),
        ({"created_by": "adam"}, "created_by"),
        ({"created_by": "robot:r2"}, "created_by"),
        ({"title": "two\nlines"}, "title"),
        ({"prompt": "nul\0"}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 513}, "idempotency_key"),
        ({"idempotency_key": "a\x1b[31m"}, "idempotency_key"),
        ({"external_id": "\u2028"}, "external_id"),
        ({"payload": {"a": [float("nan")]}}, "payload.a[0]"),
        ({"payload": {"a": 2**63}}, "payload.a"),
        ({"payload": {"a": "\ud800"}}, "payload.a"),
        ({"payload": {"a": "\0"}}, "payload.a"),
        ({"validation_schema": {"a": {1, 2}}}, "validation_schema.a"),
        ({"priority": 101}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": float("nan")}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"priority": 11, "scale": "1-10"}, "priority"),
        ({"priority": 1, "scale": "stars"}, "scale"),
        ({"priority_boost_per_minute": -0.1}, "priority_boost_per_minute"),
        ({"delay_sec": -1}, "delay_sec"),
        ({"delay_sec": YEAR_SEC + 1}, "delay_sec"),
        ({"delay": float("inf")}, "delay_sec"),
        ({"timeout": 0}, "timeout_sec"),
        ({"timeout": 1, "timeout_sec": 1}, "timeout"),
        ({"delay_sec": 1, "at": NOW}, "at"),
        ({"at": datetime(2026, 1, 1)}, "at"),
        ({"at": "2026-01-01T00:00:00"}, "at"),
        ({"at": 1_770_541_200}, "at"),
        ({"deadline": "tomorrow"}, "deadline"),
        ({"deadline": "0001-01-01T00:00:00+14:00"}, "deadline"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"max_attempts": 2.0}, "max_attempts"),
        ({"max_cost_usd": -1}, "max_cost_usd"),
        ({"retry": {"initial_delay_sec": -1}}, "retry.initial_delay_sec"),
        ({"retry": "often"}, "retry"),
        ({"parent_id": "unknown"}, "parent_id"),
        ({"dedupe": "payload"}, "dedupe"),
        ({"dedupe_fields": ["nothing"]}, "dedupe_fields"),
        ({"if_exists": "ignore"}, "if_exists"),
        ({"surprise": 1}, "surprise"),
        ({"Type": "code"}, "Type"),
    ],
)
def test_a_broken_rule_is_named_with_its_field(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        a_spec(**fields)

    assert refused.value.field == path
    assert refused.value.rule


def test_a_missing_type_is_named() -> None:
    with pytest.raises(InvalidTask, match="type: is required"):
        TaskSpec.of(payload={})


def test_a_spec_cannot_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        a_spec().priority = 3  # type: ignore[misc] # the attempt is the test


def test_later_changes_to_a_payload_are_not_stored() -> None:
    payload = {"a": 1}
    spec = a_spec(payload=payload)

    payload["a"] = 2

    assert spec.definition() == b'{"t":"code","p":{"a":1}}'


def test_a_payload_over_256_kb_is_refused_unless_the_queue_allows_more() -> None:
    spec = a_spec(payload="x" * 256 * 1024)

    with pytest.raises(InvalidTask, match="payload"):
        spec.definition()
    assert spec.definition(max_bytes=300_000)


def test_external_ids_are_kept_and_task_ids_are_normalised() -> None:
    task, dag = new_task_id(), new_dag_id()

    spec = a_spec(
        depends_on=[str(task.uuid), "task-id-1", task.lower(), "task_1"],
        dag_id=dag.ulid,
        external_id=str(task.uuid),
    )

    assert spec.depends_on == (task, "task-id-1", "task_1")
    assert isinstance(spec.depends_on[0], TaskId)
    assert isinstance(spec.dag_id, DagId)
    assert spec.external_id == task
    assert a_spec(dag_id="workflow 7").dag_id == "workflow 7"


def test_a_task_may_not_wait_for_itself() -> None:
    with pytest.raises(InvalidTask, match="depends_on"):
        a_spec(depends_on=["mine"], external_id="mine").admit(NOW)


def test_a_task_may_not_be_delayed_by_more_than_a_year() -> None:
    year = timedelta(seconds=YEAR_SEC)

    a_spec(at=NOW + year).admit(NOW)
    with pytest.raises(InvalidTask, match="at: is more than a year"):
        a_spec(at=NOW + year + timedelta(seconds=1)).admit(NOW)


def test_instants_are_kept_in_utc() -> None:
    spec = a_spec(at=datetime(2026, 2, 8, 11, tzinfo=timezone(timedelta(hours=2))))

    assert spec.at is not None
    assert spec.at.isoformat() == "2026-02-08T09:00:00+00:00"


def test_options_have_aliases() -> None:
    spec = a_spec(timeout=5, delay=2, priority=9, scale="1-10")

    assert (spec.timeout_sec, spec.delay_sec, spec.priority) == (5, 2, 10)


def test_rates_are_rounded_to_hundredths_and_lists_have_no_duplicates() -> None:
    spec = a_spec(priority_boost_per_minute=0.12345, tags=["b", "a", "b"])

    assert spec.priority_boost_per_minute == 0.12
    assert spec.tags == ("b", "a")


def test_the_smaller_time_limit_applies_and_the_estimate_defaults_to_the_maximum() -> None:
    spec = a_spec(timeout_sec=3600, max_duration_sec=300, max_cost_usd=0.5)

    assert (spec.time_limit_sec, spec.estimate_usd) == (300, 0.5)
    assert a_spec(max_cost_usd=1, estimated_cost_usd=0.2).estimate_usd == 0.2
    assert (a_spec().time_limit_sec, a_spec().estimate_usd) == (None, 0.0)


def test_an_idempotency_key_overrides_deduplication_by_content() -> None:
    one = a_spec(idempotency_key="pr-123", payload={"a": 1}, dedupe="content")
    other = a_spec(idempotency_key="pr-123", payload={"a": 2})

    assert one.identity("q") == other.identity("q")
    assert a_spec().identity("q") is None


def test_dedupe_fields_imply_deduplication_by_content() -> None:
    implied = a_spec(dedupe_fields=["payload"], payload={"a": 1})

    assert implied.identity("q") == a_spec(
        dedupe="content", dedupe_fields=["payload"], payload={"a": 1}
    ).identity("q")
    assert implied.identity("q") is not None


def test_content_is_namespace_type_and_payload_or_the_dedupe_fields() -> None:
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    whole = a_spec(dedupe="content", payload=one).identity("q")
    payload_only = {"dedupe": "content", "dedupe_fields": ["payload"]}

    assert whole == a_spec(dedupe="content", payload=other).identity("q")
    assert whole != a_spec(dedupe="content", payload=one).identity("r")
    assert whole != a_spec(dedupe="content", payload=one, type="test").identity("q")
    assert a_spec(**payload_only, payload=one).identity("q") == a_spec(
        **payload_only, payload=other, type="test"
    ).identity("q")


def test_a_policy_object_is_accepted() -> None:
    assert a_spec(retry=RetryPolicy.fixed(3)).retry == RetryPolicy.fixed(3)


def test_the_spec_has_a_json_schema() -> None:
    schema = TaskSpec.model_json_schema()

    assert schema["required"] == ["type"]
    assert schema["additionalProperties"] is False
