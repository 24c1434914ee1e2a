"""Restoring: archived tasks are submitted again under new ids."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import DagHandle, State, TaskId
from rqueue.errors import DagNotFound, InvalidTask, TaskNotFound, WrongState
from rqueue.task.artifact import placeholder_in
from rqueue.task.ids import ArtifactId, new_task_id
from tests.archive.archived_harness import ArchivedHarness


async def diamond(archived: ArchivedHarness, **options: Any) -> DagHandle:
    """Submits a, then b and c, then d with the outputs of b and c."""
    tasks = [
        {"name": "a", "type": "t", "payload": {"n": 1}, "tags": ["x"]},
        {"name": "b", "type": "t", "after": ["a"]},
        {"name": "c", "type": "t", "after": ["a"], "priority": 30},
        {"name": "d", "type": "t", "inputs": {"left": "b", "both": ["b", "c"]}},
    ]
    return await archived.queue.dags.submit({"title": "diamond", "tasks": tasks, **options})


async def test_an_unknown_id_is_not_restored(archived: ArchivedHarness) -> None:
    with pytest.raises(TaskNotFound):
        await archived.queue.archive.restore(TaskId.from_ulid("01JZ0000007000800000000000"))
    with pytest.raises(TaskNotFound):
        await archived.queue.archive.restore("nobody's")
    with pytest.raises(DagNotFound):
        await archived.queue.archive.restore_dag("dag_01JZ0000007000800000000000")


async def test_a_retried_task_is_not_restored(archived: ArchivedHarness) -> None:
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await archived.archiver.tick()
    await archived.queue.dead.retry(lease.id)
    before = await archived.harness.dump()

    with pytest.raises(WrongState):
        await archived.queue.archive.restore(lease.id)

    assert await archived.harness.dump() == before


async def test_a_restored_task_has_its_definition_and_links_to_the_original(
    archived: ArchivedHarness,
) -> None:
    payload = {"x": [1, {"y": None}]}
    old = await archived.queue.enqueue(
        "code", payload, priority=20.5, tags=["t"], max_attempts=7, title="T",
        headers={"h": "1"}, idempotency_key="mine", external_id="order-1", delay=0.001,
    )  # fmt: skip
    await archived.queue.cancel(old.id)
    await archived.forget()

    done = await archived.queue.archive.restore("order-1")

    ((was, new),) = done.tasks.items()
    task = await archived.queue.get(new)
    spec = task.spec
    assert (was, task.state, task.payload) == (old.id, State.READY, payload)
    assert (spec.priority, spec.tags, spec.max_attempts, spec.title) == (20.5, ("t",), 7, "T")
    assert spec.headers == {"h": "1", "restored-from": str(old.id)}
    assert (spec.external_id, spec.delay_sec) == (None, None)


async def test_an_external_id_in_the_form_of_a_task_id_is_found(archived: ArchivedHarness) -> None:
    own = "018f22e2-79b0-7cc3-98c4-dc0c0c07398f"
    old = await archived.queue.enqueue("code", {}, external_id=own)
    await archived.queue.cancel(old.id)
    await archived.forget()

    done = await archived.queue.archive.restore(own)

    assert list(done.tasks) == [old.id]


async def test_the_original_idempotency_key_does_not_block_a_restore(
    archived: ArchivedHarness,
) -> None:
    task = await archived.ended(idempotency_key="mine")
    await archived.archiver.tick()

    done = await archived.queue.archive.restore(task)

    assert (done.created, done.tasks[task] != task) == (True, True)
    assert (await archived.queue.get(done.tasks[task])).state is State.READY


async def test_a_passed_deadline_is_left_out(archived: ArchivedHarness) -> None:
    lease = await archived.harness.running(deadline="2026-01-01T00:00:00Z")
    await lease.complete()
    await archived.forget()

    done = await archived.queue.archive.restore(lease.id)

    assert (await archived.queue.get(done.tasks[lease.id])).spec.deadline is None
    assert "no deadline" in done.notes[0]


async def test_a_dependency_that_no_longer_exists_is_left_out(
    archived: ArchivedHarness,
) -> None:
    parent = await archived.harness.running("first")
    child = await archived.queue.enqueue("second", {}, depends_on=[parent.id])
    await parent.fail(permanent=True)
    await archived.queue.cancel(child.id)
    await archived.archiver.tick()

    waiting = await archived.queue.archive.restore(child.id)
    assert (await archived.queue.get(waiting.tasks[child.id])).state is State.PENDING

    await archived.harness.client.flushall()
    gone = await archived.queue.archive.restore(child.id)
    assert (await archived.queue.get(gone.tasks[child.id])).state is State.READY
    assert f"does not wait for {parent.id}" in gone.notes[0]


async def test_a_running_dag_is_not_restored(archived: ArchivedHarness) -> None:
    dag = await diamond(archived)
    (lease,) = await archived.queue.claim(worker="w1", n=1)
    await lease.start()
    await lease.complete()
    await archived.archiver.tick()
    before = await archived.harness.dump()

    with pytest.raises(InvalidTask, match="has not ended"):
        await archived.queue.archive.restore_dag(dag.id)

    assert await archived.harness.dump() == before


async def test_a_whole_dag_runs_again_in_its_order(archived: ArchivedHarness) -> None:
    dag = await diamond(archived, budget_usd=5.0, on_failure="continue")
    assert await archived.run() == ["a", "c", "b", "d"]
    await archived.forget()

    done = await archived.queue.archive.restore_dag(dag.id)

    assert done.dag is not None
    handle = await archived.queue.dags.get(done.dag)
    status = await handle.status()
    assert (status.total, status.spec.title, status.spec.budget_usd) == (4, "diamond", 5.0)
    assert status.spec.on_failure == "continue"
    assert not set(done.tasks) & set(done.tasks.values())
    assert await archived.run() == ["a", "c", "b", "d"]
    tasks = {task.spec.name: task for task in await handle.read()}
    assert tasks["a"].payload == {"n": 1}
    assert tasks["d"].spec.headers["restored-from-dag"] == str(dag.id)
    assert (await handle.status()).status == "completed"


async def test_incomplete_tasks_run_with_the_outputs_of_the_completed_ones(
    archived: ArchivedHarness,
) -> None:
    dag = await diamond(archived)
    await archived.run(fail=("d",))
    await archived.queue.purge()
    await archived.forget()

    done = await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    assert len(done.tasks) == 1
    (lease,) = await archived.queue.claim(worker="w1")
    assert lease.task.payload == {"left": "b out", "both": ["b out", "c out"]}


async def test_a_completed_task_whose_output_cannot_be_embedded_runs_again(
    archived: ArchivedHarness,
) -> None:
    dag = await diamond(archived)
    await archived.run(fail=("c",))
    await archived.queue.dags.cancel(dag.id)
    await archived.queue.purge()
    await archived.forget()

    await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    assert sorted(await archived.run()) == ["b", "c", "d"]


async def test_a_completed_task_with_an_artifact_as_result_runs_again(
    archived: ArchivedHarness,
) -> None:
    dag = await diamond(archived)
    await archived.run(fail=("d",))
    await archived.queue.purge()
    await archived.forget()
    pointer = f"artifact:{ArtifactId.from_ulid(new_task_id().ulid)} 9 {'0' * 64}"
    assert placeholder_in(pointer.encode()) is not None
    archived.tables.database.psql(
        "UPDATE rqueue.task_lives SET result = convert_to(%s, 'UTF8'), output = NULL"
        " WHERE spec ->> 'name' = 'b'", pointer,
    )  # fmt: skip

    await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    assert sorted(await archived.run()) == ["b", "c", "d"]


async def test_a_dry_run_writes_nothing(archived: ArchivedHarness) -> None:
    dag = await diamond(archived)
    await archived.run()
    task = await archived.ended()
    await archived.archiver.tick()
    before = await archived.harness.dump()

    whole = await archived.queue.archive.restore_dag(dag.id, dry_run=True)
    one = await archived.queue.archive.restore(task, dry_run=True)

    assert (len(whole.tasks), len(one.tasks)) == (4, 1)
    assert await archived.harness.dump() == before


async def test_spawned_tasks_are_left_out_because_their_parent_spawns_them_again(
    archived: ArchivedHarness,
) -> None:
    async with archived.queue.dag("d") as dag:
        dag.add({"type": "parent", "payload": {}})
    (lease,) = await archived.queue.claim(worker="w1")
    await lease.start()
    (task,) = await dag.tasks()
    child = await archived.queue.enqueue("child", {}, parent_id=task.id)
    await lease.complete()
    await archived.run()
    await archived.archiver.tick()
    archived.tables.database.psql(
        "UPDATE rqueue.task_lives SET dag_id = %s WHERE id = %s", dag.id.uuid, child.id.uuid
    )

    done = await archived.queue.archive.restore_dag(dag.id)

    assert list(done.tasks) == [task.id]
    assert f"{child.id} is left out: {task.id} spawns it again" in done.notes


async def test_an_unreadable_task_is_reported_and_left_out(archived: ArchivedHarness) -> None:
    task = await archived.ended()
    await archived.archiver.tick()
    archived.tables.database.psql("UPDATE rqueue.task_lives SET definition = 'no json'")

    with pytest.raises(InvalidTask, match="cannot be restored"):
        await archived.queue.archive.restore(task)
