"""Restoring what refers to other tasks: as it was, or not at all."""

from __future__ import annotations

import pytest

from rqueue import TaskId
from rqueue.errors import InvalidGraph
from rqueue.task.references import output_of
from tests.archive.archived_harness import ArchivedHarness


async def reader_of(home: ArchivedHarness, task: TaskId) -> TaskId:
    """A task that looks at another's output, given up before it ran."""
    child = await home.queue.enqueue("reader", {}, context_refs=[output_of(task)])
    await home.queue.cancel(child.id)
    return child.id


async def test_a_text_that_refers_to_what_is_forgotten_is_not_restored(
    home: ArchivedHarness,
) -> None:
    old = await home.ended()
    child = await reader_of(home, old)
    await home.forget()
    before = await home.harness.dump()

    for dry_run in (True, False):
        with pytest.raises(InvalidGraph, match="refers to a task") as refused:
            await home.queue.archive.restore(child, dry_run=dry_run)
        assert refused.value.path == (child, old)

    assert await home.harness.dump() == before


async def test_a_text_that_refers_to_what_is_there_is_restored(home: ArchivedHarness) -> None:
    old = await home.ended()
    child = await reader_of(home, old)
    await home.archiver.tick()

    await home.queue.archive.restore(child)

    (lease,) = await home.queue.claim(worker="w1")
    assert lease.task.references == {output_of(old): {"done": "code"}}


async def test_an_output_that_nobody_has_is_refused_before_it_is_tried(
    home: ArchivedHarness,
) -> None:
    parent = await home.harness.running("first")
    inputs = {"x": output_of(parent.id)}
    child = await home.queue.enqueue("second", {}, depends_on=[parent.id], inputs=inputs)
    await parent.fail(permanent=True)
    await home.queue.cancel(child.id)
    await home.forget()

    with pytest.raises(InvalidGraph) as refused:
        await home.queue.archive.restore(child.id, dry_run=True)

    assert refused.value.path == (child.id, parent.id)


async def test_what_runs_after_any_end_may_refer_to_what_was_cancelled(
    home: ArchivedHarness,
) -> None:
    old = await home.queue.enqueue("first", {})
    inputs = {"x": output_of(old.id)}
    child = await home.queue.enqueue(
        "second", {}, depends_on=[old.id], inputs=inputs, trigger="all_done"
    )
    await home.queue.cancel(child.id)
    await home.queue.cancel(old.id)
    await home.archiver.tick()

    done = await home.queue.archive.restore(child.id)

    (lease,) = await home.queue.claim(worker="w1")
    assert (lease.id, lease.task.payload) == (done.tasks[child.id], {"x": None})


async def test_a_dag_that_refers_to_what_is_forgotten_outside_is_not_restored(
    home: ArchivedHarness,
) -> None:
    old = await home.ended()
    refers = {"name": "a", "type": "t", "context_refs": [output_of(old)]}
    dag = await home.queue.dags.submit({"tasks": [refers]})
    (task,) = await dag.tasks()
    await home.queue.dags.cancel(dag.id)
    await home.forget()

    with pytest.raises(InvalidGraph) as refused:
        await home.queue.archive.restore_dag(dag.id)

    assert refused.value.path == (task.id, old)
