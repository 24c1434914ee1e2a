"""The views: the fields of a task in SQL, and the lists and rows of the documents A and C."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from rqueue import Task
from rqueue.archive.schema import Month
from rqueue.core.notes import attach
from rqueue.task.attempt.outcome import AttemptRecord
from rqueue.task.forms import Form, automechanica, reference, view
from rqueue.task.ids import DagId, TaskId, new_dag_id, new_task_ids
from rqueue.task.priority import from_native
from rqueue.task.spec import TaskSpec
from rqueue.task.state import FINAL
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.postgres import Database
from tests.servers import Server

# Fields of tasks that have not ended, fields computed while reading, and fields in several columns.
NOT_COLUMNS = {
    "spec", "claim", "blocked_by", "available_at", "effective_priority", "references",
    "unreadable", "damaged",
}  # fmt: skip
EVERYTHING: dict[str, Any] = {
    "title": "it's", "prompt": "do", "context_refs": ["file:a"], "priority": 12.5,
    "priority_boost_per_minute": 2.5, "deadline": "2040-01-01T00:00:00Z",
    "expected_duration_sec": 3.0, "limit_key": "client-1", "idempotency_key": "once",
    "external_id": "mine", "max_attempts": 7, "timeout": 20, "max_duration_sec": 10.0,
    "max_cost_usd": 2.0, "estimated_cost_usd": 0.5, "model_preferences": ["m"],
    "fallback_models": ["n"], "output_type": "json", "artifacts": ["a"],
    "created_by": "human:me", "tags": ["a", "b"], "headers": {"k": "v"},
    "retry": {"strategy": "fixed", "initial_delay_sec": 3.0},
}  # fmt: skip


def rows(env: ReaderHarness, statement: str, *values: object) -> list[dict[str, Any]]:
    with psycopg.connect(env.database.url, row_factory=dict_row) as line:
        return line.execute(statement.encode(), values).fetchall()


def row_of(env: ReaderHarness, task: Task, relation: str = "tasks", key: str = "id") -> Any:
    (found,) = rows(env, f"SELECT * FROM {relation} WHERE {key} = %s", task.id.uuid)
    return found


def plain(value: Any) -> Any:
    """Returns a value of either side in a comparable form."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def shown(task: Task) -> dict[str, Any]:
    """Returns the fields of a task by column name."""
    found = {**task.model_dump(), **task.spec.model_dump(exclude_defaults=False)}
    found["failed_by"] = list(task.failed_by) or None
    found["failure_history"] = [record.model_dump(mode="json") for record in task.failure_history]
    found["id"], found["dag"] = task.id.uuid, task.dag and task.dag.uuid
    found["dag_id"] = task.spec.dag_id or task.dag
    found["result_artifact"] = task.result_artifact and task.result_artifact.reference
    found["attached"] = [
        artifact.model_dump(mode="json", exclude_none=True) for artifact in task.attached
    ]
    found["parent_id"] = task.spec.parent_id and task.spec.parent_id.uuid
    found["retry"] = task.spec.retry and task.spec.retry.model_dump(
        mode="json", exclude_defaults=True
    )
    return {name: plain(value) for name, value in found.items() if name not in NOT_COLUMNS}


async def a_few(env: ReaderHarness) -> list[Task]:
    """Archives tasks that have ended in every way."""
    first = await env.completed(result={"decisionReport": {"why": 1}}, **EVERYTHING)
    lease = await env.lease("other", [1], max_attempts=2)
    await lease.spend(0.25, tokens_in=3, tokens_out=4)
    await lease.fail("timeout", "too 'slow'")
    await env.harness.make_due(lease.id)
    await env.harness.promoter.tick()
    (again,) = await env.queue.claim(worker="w2", types=["other"])
    await again.start()
    await again.complete([1, {"a": None}])
    dead = await env.dead(error="it broke", priority=80)
    gone = await env.dead(agent_name="FitmentAgent")
    await env.queue.dead.discard(gone.id, "not worth it")
    waiting = await env.queue.enqueue("code", delay=60)
    await waiting.cancel("no longer")
    await env.queue.dags.chain(env.queue.call("code", {"n": 1}), env.queue.call("code"))
    for _ in range(2):
        (lease,) = await env.queue.claim(worker="w1", types=["code"])
        await lease.start()
        await lease.complete("")
    last = await env.queue.get(lease.id)
    ids = (first.id, again.id, dead.id, gone.id, waiting.id, last.id)
    found = [await env.queue.get(id) for id in ids]
    await env.archive()
    return found


async def test_the_view_of_tasks_has_every_field_as_the_model_shows_it(env: ReaderHarness) -> None:
    for task in await a_few(env):
        row = row_of(env, task)

        expected = shown(task)
        # Missing fields have their defaults: both sides are compared whole.
        row["failure_history"] = [
            AttemptRecord.parse(record).model_dump(mode="json") for record in row["failure_history"]
        ]
        found = {name: plain(row[name]) for name in expected}
        assert found == expected
        assert row["task_id"] == task.id
        assert row["status"] == task.state


async def test_a_discarded_task_was_cancelled_when_it_was_discarded(env: ReaderHarness) -> None:
    dead = await env.dead()
    await env.queue.dead.discard(dead.id)
    key = env.harness.keys.task(dead.id.ulid)
    await env.harness.client.hincrby(key, "discarded", 3_600_000)
    task = await env.queue.get(dead.id)

    await env.archive()

    row, listed = row_of(env, task), row_of(env, task, "cancelled", "task_id")
    assert row["cancelled_at"] == row["discarded_at"] == listed["cancelledAt"] == task.cancelled_at
    assert row["dead_lettered_at"] == row["finished_at"] == task.updated_at != task.cancelled_at


async def test_views_list_artifacts_and_results_that_are_artifacts(
    valkey: Server, postgres: Database, tmp_path: Path
) -> None:
    place = f"file://{tmp_path}"
    async with reader_harness(valkey, postgres, artifacts_url=place, max_result_bytes=1024) as env:
        lease = await env.lease()
        for name in ("a.txt", "b.txt"):
            artifact = await env.queue.artifacts.put(name, name=name)
            await attach(env.queue._internals.shard, lease.held, artifact)
        await lease.complete("x" * 2000)
        whole = await env.queue.get(lease.id)
        task = await env.queue._internals.operations.get(lease.id)
        await env.moved()

        row = row_of(env, task)
        expected = shown(task)
        assert {name: plain(row[name]) for name in ("attached", "result_artifact", "result")} == {
            name: expected[name] for name in ("attached", "result_artifact", "result")
        }
        assert len(row["attached"]) == 2
        assert (await env.queue.get(lease.id)).result == whole.result == "x" * 2000


def test_every_field_of_the_model_is_a_column_or_has_a_reason() -> None:
    fields = set(Task.model_fields) | set(TaskSpec.model_fields)

    assert fields >= NOT_COLUMNS


async def test_select_from_tasks_by_status_works_as_the_documents_write_it(
    env: ReaderHarness,
) -> None:
    tasks = await a_few(env)

    for state in FINAL:
        found = rows(env, f"SELECT * FROM tasks WHERE status = '{state}'")
        known = {task.id for task in tasks if task.state is state}
        assert known <= {row["task_id"] for row in found}
    assert not rows(env, "SELECT * FROM tasks WHERE status = 'RUNNING'")


@pytest.mark.parametrize(
    ("form", "relation", "key"),
    [("A", "reference_tasks", "task_id"), ("C", "automechanica_tasks", "id")],
)
async def test_a_document_shows_the_same_in_sql(
    env: ReaderHarness, form: Form, relation: str, key: str
) -> None:
    for task in await a_few(env):
        row = row_of(env, task, relation, key)
        document = view(task, form)

        found = {name: plain(row[name]) for name in document}
        if form == "C":
            # The key is a UUID, also if the producer uses another id.
            document["id"], found["id"] = task.spec.external_id, row["external_id"]
            found["workflow_id"] = row["workflow_id"] and str(row["workflow_id"])
        expected = {name: stamped(name, value) for name, value in document.items()}
        assert found == expected


def stamped(name: str, value: Any) -> Any:
    """Returns a time of a document as a number."""
    if isinstance(value, str) and name.endswith(("At", "_at")):
        return datetime.fromisoformat(value).timestamp()
    return value


async def test_the_lists_of_document_a_have_their_tasks(env: ReaderHarness) -> None:
    tasks = await a_few(env)

    for relation, word in (("completed", "completed"), ("dead_letter", "dead-letter"),
                           ("cancelled", "cancelled")):  # fmt: skip
        found = rows(env, f"SELECT * FROM {relation}")
        assert {row["list"] for row in found} == {word}
        known = {task.id.uuid for task in tasks if reference.STATUS[task.state] == word}
        assert known <= {row["task_id"] for row in found}


async def test_the_columns_of_document_c_are_its_own_in_its_order(env: ReaderHarness) -> None:
    found = env.sql(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = 'automechanica_tasks' ORDER BY ordinal_position"
    )

    names = [name for (name,) in found]
    assert names[:15] == [
        "id", "workflow_id", "agent_name", "task_type", "payload", "priority", "status",
        "attempts", "max_attempts", "available_at", "lease_owner", "lease_expires_at",
        "error_info", "created_at", "updated_at",
    ]  # fmt: skip
    assert automechanica.STATUS.keys() >= FINAL


async def test_priorities_are_mapped_as_documented(pg_env: ReaderHarness) -> None:
    for native in (0, 5, 9.99, 10, 10.5, 15, 32.5, 32.6, 45, 50, 57.5, 58, 85, 95, 100):
        await pg_env.completed(priority=float(native))
    await pg_env.archive()

    found = pg_env.sql(
        "SELECT t.priority, a.priority, c.priority FROM tasks t"
        " JOIN reference_tasks a ON a.task_id = t.id JOIN automechanica_tasks c ON c.id = t.id"
    )

    assert len(found) == 15
    for native, a, c in found:
        assert (a, c) == (from_native(native, "1-10"), from_native(native, "0-3"))


async def test_ids_are_written_and_read_as_the_model_does(env: ReaderHarness) -> None:
    for id in (*new_task_ids(20), TaskId.from_ulid("7" + "Z" * 25)):
        uuid = id.uuid
        assert env.sql("SELECT rqueue.ulid(%s)", uuid) == [(id.ulid,)]
        dag = DagId.from_ulid(id.ulid)
        for form in (str(id), id.ulid, str(uuid), id.lower(), uuid.hex, str(dag)):
            assert env.sql("SELECT rqueue.id(%s)", form) == [(uuid,)]
    for nothing in ("", "mine", "task_", "8" * 26, "task_01\n", str(new_dag_id()) + "0"):
        assert env.sql("SELECT rqueue.id(%s)", nothing) == [(None,)]


async def test_a_look_up_by_id_touches_one_month(env: ReaderHarness) -> None:
    tasks = await a_few(env)

    id, made = tasks[0].id, tasks[0].created_at
    for relation, key in (("tasks", "id"), ("reference_tasks", "task_id"),
                          ("automechanica_tasks", "id"), ("attempts", "task_id")):  # fmt: skip
        plan = env.sql(
            "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)"
            f" SELECT * FROM {relation} WHERE {key} = rqueue.id('{id}')"
        )
        scans = [line for (line,) in plan if " on task_lives" in line]
        touched = {line.split(" on ")[1].split()[0] for line in scans if "never" not in line}
        assert touched == {Month(made.year, made.month).table}, plan
        assert not any("Seq Scan" in line for line in scans), plan


async def test_a_hostile_definition_does_not_break_the_views(env: ReaderHarness) -> None:
    good = await env.completed()
    for text in (
        b'{"t":"code","deadline":"nonsense","max_attempts":"many","tags":7,"retry":[1],"p":1}',
        b'{"t":"code","deadline":"infinity","at":"9999-99-99T00:00:00Z","timeout_sec":1e400}',
        b'{"t":"code","depends_on":{"a":1},"inputs":3,"context_refs":"x","external_id":["a"]}',
        b'{"t":"code","p":"\\u0000"}',
        b"[1,2",
        b"\xff\x00",
    ):
        lease = await env.lease()
        key = env.harness.keys.task(lease.id.ulid)
        await env.harness.client.hset(key, "def0", text)
        await env.harness.client.hset(key, "odd", b"\xfe\xff\x00")
        await lease.complete()
    assert await env.archive() == 7

    for relation in ("tasks", "attempts", "spending", "reference_tasks", "automechanica_tasks"):
        found = rows(env, f"SELECT * FROM {relation}")
        assert len(found) == (0 if relation == "spending" else 7)
    assert row_of(env, good)["max_attempts"] == 3
