"""Restoring: ended work begins anew, as it was, under new ids."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import DagHandle, State, TaskId
from rqueue.errors import DagNotFound, InvalidTask, TaskNotFound, WrongState
from rqueue.task.artifact import placeholder_in
from rqueue.task.ids import ArtifactId, new_task_id
from tests.archive.archived_harness import ArchivedHarness


async def diamond(home: ArchivedHarness, **options: Any) -> DagHandle:
    """a, then b and c, then d, which is given what b and c gave."""
    tasks = [
        {"name": "a", "type": "t", "payload": {"n": 1}, "tags": ["x"]},
        {"name": "b", "type": "t", "after": ["a"]},
        {"name": "c", "type": "t", "after": ["a"], "priority": 30},
        {"name": "d", "type": "t", "inputs": {"left": "b", "both": ["b", "c"]}},
    ]
    return await home.queue.dags.submit({"title": "diamond", "tasks": tasks, **options})


async def test_what_is_not_there_is_not_restored(home: ArchivedHarness) -> None:
    with pytest.raises(TaskNotFound):
        await home.queue.archive.restore(TaskId.from_ulid("01JZ0000007000800000000000"))
    with pytest.raises(TaskNotFound):
        await home.queue.archive.restore("nobody's")
    with pytest.raises(DagNotFound):
        await home.queue.archive.restore_dag("dag_01JZ0000007000800000000000")


async def test_what_lives_again_is_not_restored(home: ArchivedHarness) -> None:
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await home.archiver.tick()
    await home.queue.dead.retry(lease.id)
    before = await home.harness.dump()

    with pytest.raises(WrongState):
        await home.queue.archive.restore(lease.id)

    assert await home.harness.dump() == before


async def test_a_restored_task_is_as_it_was_and_says_whence(home: ArchivedHarness) -> None:
    asked = {"x": [1, {"y": None}]}
    old = await home.queue.enqueue(
        "code", asked, priority=20.5, tags=["t"], max_attempts=7, title="T",
        headers={"h": "1"}, idempotency_key="mine", external_id="order-1", delay=0.001,
    )  # fmt: skip
    await home.queue.cancel(old.id)
    await home.forget()

    done = await home.queue.archive.restore("order-1")

    ((was, new),) = done.tasks.items()
    task = await home.queue.get(new)
    spec = task.spec
    assert (was, task.state, task.payload) == (old.id, State.READY, asked)
    assert (spec.priority, spec.tags, spec.max_attempts, spec.title) == (20.5, ("t",), 7, "T")
    assert spec.headers == {"h": "1", "restored-from": str(old.id)}
    assert (spec.external_id, spec.delay_sec) == (None, None)


async def test_a_producers_own_id_that_looks_like_ours_is_found(home: ArchivedHarness) -> None:
    own = "018f22e2-79b0-7cc3-98c4-dc0c0c07398f"
    old = await home.queue.enqueue("code", {}, external_id=own)
    await home.queue.cancel(old.id)
    await home.forget()

    done = await home.queue.archive.restore(own)

    assert list(done.tasks) == [old.id]


async def test_its_own_old_key_does_not_answer_for_it(home: ArchivedHarness) -> None:
    task = await home.ended(idempotency_key="mine")
    await home.archiver.tick()

    done = await home.queue.archive.restore(task)

    assert (done.created, done.tasks[task] != task) == (True, True)
    assert (await home.queue.get(done.tasks[task])).state is State.READY


async def test_a_deadline_that_is_over_is_left_behind(home: ArchivedHarness) -> None:
    lease = await home.harness.running(deadline="2026-01-01T00:00:00Z")
    await lease.complete()
    await home.forget()

    done = await home.queue.archive.restore(lease.id)

    assert (await home.queue.get(done.tasks[lease.id])).spec.deadline is None
    assert "no deadline" in done.notes[0]


async def test_what_it_waited_for_outside_is_left_out_where_it_is_gone(
    home: ArchivedHarness,
) -> None:
    parent = await home.harness.running("first")
    child = await home.queue.enqueue("second", {}, depends_on=[parent.id])
    await parent.fail(permanent=True)
    await home.queue.cancel(child.id)
    await home.archiver.tick()

    there = await home.queue.archive.restore(child.id)
    assert (await home.queue.get(there.tasks[child.id])).state is State.PENDING

    await home.harness.client.flushall()
    gone = await home.queue.archive.restore(child.id)
    assert (await home.queue.get(gone.tasks[child.id])).state is State.READY
    assert f"does not wait for {parent.id}" in gone.notes[0]


async def test_a_dag_that_is_not_over_is_not_restored(home: ArchivedHarness) -> None:
    dag = await diamond(home)
    (lease,) = await home.queue.claim(worker="w1", n=1)
    await lease.start()
    await lease.complete()
    await home.archiver.tick()
    before = await home.harness.dump()

    with pytest.raises(InvalidTask, match="not over"):
        await home.queue.archive.restore_dag(dag.id)

    assert await home.harness.dump() == before


async def test_a_whole_dag_runs_anew_in_its_order(home: ArchivedHarness) -> None:
    dag = await diamond(home, budget_usd=5.0, on_failure="continue")
    assert await home.run() == ["a", "c", "b", "d"]
    await home.forget()

    done = await home.queue.archive.restore_dag(dag.id)

    assert done.dag is not None
    handle = await home.queue.dags.get(done.dag)
    status = await handle.status()
    assert (status.total, status.spec.title, status.spec.budget_usd) == (4, "diamond", 5.0)
    assert status.spec.on_failure == "continue"
    assert not set(done.tasks) & set(done.tasks.values())
    assert await home.run() == ["a", "c", "b", "d"]
    tasks = {task.spec.name: task for task in await handle.read()}
    assert tasks["a"].payload == {"n": 1}
    assert tasks["d"].spec.headers["restored-from-dag"] == str(dag.id)
    assert (await handle.status()).status == "completed"


async def test_what_did_not_complete_runs_with_the_outputs_of_the_others(
    home: ArchivedHarness,
) -> None:
    dag = await diamond(home)
    await home.run(fail=("d",))
    await home.queue.purge()
    await home.forget()

    done = await home.queue.archive.restore_dag(dag.id, incomplete=True)

    assert len(done.tasks) == 1
    (lease,) = await home.queue.claim(worker="w1")
    assert lease.task.payload == {"left": "b out", "both": ["b out", "c out"]}


async def test_what_is_needed_beside_what_runs_anew_runs_anew_too(home: ArchivedHarness) -> None:
    dag = await diamond(home)
    await home.run(fail=("c",))
    await home.queue.dags.cancel(dag.id)
    await home.queue.purge()
    await home.forget()

    await home.queue.archive.restore_dag(dag.id, incomplete=True)

    assert sorted(await home.run()) == ["b", "c", "d"]


async def test_what_gave_something_too_large_to_be_a_part_runs_anew(home: ArchivedHarness) -> None:
    dag = await diamond(home)
    await home.run(fail=("d",))
    await home.queue.purge()
    await home.forget()
    pointer = f"artifact:{ArtifactId.from_ulid(new_task_id().ulid)} 9 {'0' * 64}"
    assert placeholder_in(pointer.encode()) is not None
    home.kept.database.psql(
        "UPDATE rqueue.task_lives SET result = convert_to(%s, 'UTF8'), output = NULL"
        " WHERE spec ->> 'name' = 'b'", pointer,
    )  # fmt: skip

    await home.queue.archive.restore_dag(dag.id, incomplete=True)

    assert sorted(await home.run()) == ["b", "c", "d"]


async def test_a_dry_run_writes_nothing(home: ArchivedHarness) -> None:
    dag = await diamond(home)
    await home.run()
    task = await home.ended()
    await home.archiver.tick()
    before = await home.harness.dump()

    whole = await home.queue.archive.restore_dag(dag.id, dry_run=True)
    one = await home.queue.archive.restore(task, dry_run=True)

    assert (len(whole.tasks), len(one.tasks)) == (4, 1)
    assert await home.harness.dump() == before


async def test_what_a_task_spawned_is_spawned_by_it_anew(home: ArchivedHarness) -> None:
    async with home.queue.dag("d") as dag:
        dag.add({"type": "parent", "payload": {}})
    (lease,) = await home.queue.claim(worker="w1")
    await lease.start()
    (task,) = await dag.tasks()
    child = await home.queue.enqueue("child", {}, parent_id=task.id)
    await lease.complete()
    await home.run()
    await home.archiver.tick()
    home.kept.database.psql(
        "UPDATE rqueue.task_lives SET dag_id = %s WHERE id = %s", dag.id.uuid, child.id.uuid
    )

    done = await home.queue.archive.restore_dag(dag.id)

    assert list(done.tasks) == [task.id]
    assert f"{child.id} is left out: {task.id} spawns it again" in done.notes


async def test_what_cannot_be_read_is_named_and_left_out(home: ArchivedHarness) -> None:
    task = await home.ended()
    await home.archiver.tick()
    home.kept.database.psql("UPDATE rqueue.task_lives SET definition = 'no json'")

    with pytest.raises(InvalidTask, match="cannot be restored"):
        await home.queue.archive.restore(task)
