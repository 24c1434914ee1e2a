"""Restoring tasks that refer to other tasks: with valid references, or not at all."""

from __future__ import annotations

import pytest

from rqueue import TaskId
from rqueue.errors import InvalidGraph
from rqueue.task.references import output_of
from tests.archive.archived_harness import ArchivedHarness


async def reader_of(archived: ArchivedHarness, task: TaskId) -> TaskId:
    """Submits and cancels a task that refers to another's output."""
    child = await archived.queue.enqueue("reader", {}, context_refs=[output_of(task)])
    await archived.queue.cancel(child.id)
    return child.id


async def test_a_task_that_refers_to_an_expired_task_is_not_restored(
    archived: ArchivedHarness,
) -> None:
    old = await archived.ended()
    child = await reader_of(archived, old)
    await archived.forget()
    before = await archived.harness.dump()

    for dry_run in (True, False):
        with pytest.raises(InvalidGraph, match="refers to a task") as refused:
            await archived.queue.archive.restore(child, dry_run=dry_run)
        assert refused.value.path == (child, old)

    assert await archived.harness.dump() == before


async def test_a_task_that_refers_to_an_existing_task_is_restored(
    archived: ArchivedHarness,
) -> None:
    old = await archived.ended()
    child = await reader_of(archived, old)
    await archived.archiver.tick()

    await archived.queue.archive.restore(child)

    (lease,) = await archived.queue.claim(worker="w1")
    assert lease.task.references == {output_of(old): {"done": "code"}}


async def test_a_missing_output_is_refused_by_a_dry_run_too(
    archived: ArchivedHarness,
) -> None:
    parent = await archived.harness.running("first")
    inputs = {"x": output_of(parent.id)}
    child = await archived.queue.enqueue("second", {}, depends_on=[parent.id], inputs=inputs)
    await parent.fail(permanent=True)
    await archived.queue.cancel(child.id)
    await archived.forget()

    with pytest.raises(InvalidGraph) as refused:
        await archived.queue.archive.restore(child.id, dry_run=True)

    assert refused.value.path == (child.id, parent.id)


async def test_a_task_with_trigger_all_done_may_refer_to_a_cancelled_task(
    archived: ArchivedHarness,
) -> None:
    old = await archived.queue.enqueue("first", {})
    inputs = {"x": output_of(old.id)}
    child = await archived.queue.enqueue(
        "second", {}, depends_on=[old.id], inputs=inputs, trigger="all_done"
    )
    await archived.queue.cancel(child.id)
    await archived.queue.cancel(old.id)
    await archived.archiver.tick()

    done = await archived.queue.archive.restore(child.id)

    (lease,) = await archived.queue.claim(worker="w1")
    assert (lease.id, lease.task.payload) == (done.tasks[child.id], {"x": None})


async def test_a_dag_that_refers_to_an_expired_task_is_not_restored(
    archived: ArchivedHarness,
) -> None:
    old = await archived.ended()
    refers = {"name": "a", "type": "t", "context_refs": [output_of(old)]}
    dag = await archived.queue.dags.submit({"tasks": [refers]})
    (task,) = await dag.tasks()
    await archived.queue.dags.cancel(dag.id)
    await archived.forget()

    with pytest.raises(InvalidGraph) as refused:
        await archived.queue.archive.restore_dag(dag.id)

    assert refused.value.path == (task.id, old)
