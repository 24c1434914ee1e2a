"""Restoring tasks with the triggers all_done and one_failed."""

from __future__ import annotations

from rqueue import DagHandle, State, TaskId
from tests.archive.archived_harness import ArchivedHarness


async def pair(archived: ArchivedHarness, trigger: str) -> tuple[DagHandle, TaskId, TaskId]:
    """Submits a, then b with this trigger."""
    after = {"name": "b", "type": "t", "after": ["a"], "trigger": trigger}
    dag = await archived.queue.dags.submit({"tasks": [{"name": "a", "type": "t"}, after]})
    a, b = await dag.tasks()
    return dag, a.id, b.id


async def promote(archived: ArchivedHarness) -> None:
    """Resolves dependents with trigger all_done or one_failed of dead tasks."""
    await archived.harness.promoter.tick()


async def test_a_failed_all_done_task_runs_again_without_its_completed_dependency(
    archived: ArchivedHarness,
) -> None:
    dag, _, b = await pair(archived, "all_done")
    assert await archived.run(fail=("b",)) == ["a", "b"]
    await archived.forget()

    done = await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    assert (list(done.tasks), done.notes) == ([b], ())
    assert await archived.run() == ["b"]


async def test_an_all_done_task_is_restored_by_its_id(archived: ArchivedHarness) -> None:
    _, _, b = await pair(archived, "all_done")
    await archived.run(fail=("b",))
    await archived.forget()

    done = await archived.queue.archive.restore(b)

    assert (await archived.queue.get(done.tasks[b])).state is State.READY


async def test_an_all_done_task_waits_for_a_dependency_that_runs_again(
    archived: ArchivedHarness,
) -> None:
    dag, _, b = await pair(archived, "all_done")
    await archived.run(fail=("a",))
    await promote(archived)
    assert await archived.run(fail=("b",)) == ["b"]
    await archived.queue.purge()
    await archived.forget()

    done = await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    assert (await archived.queue.get(done.tasks[b])).state is State.PENDING
    assert await archived.run(fail=("a",)) == ["a"]
    await promote(archived)
    assert await archived.run() == ["b"]


async def test_a_one_failed_task_whose_dependency_completed_is_left_out_of_its_dag(
    archived: ArchivedHarness,
) -> None:
    tasks = [
        {"name": "a", "type": "t"},
        {"name": "b", "type": "t", "after": ["a"], "trigger": "one_failed"},
        {"name": "c", "type": "t", "after": ["a"]},
    ]
    dag = await archived.queue.dags.submit({"tasks": tasks})
    a, b, c = [task.id for task in await dag.tasks()]
    assert await archived.run(fail=("c",)) == ["a", "c"]
    await promote(archived)
    await archived.queue.purge()
    await archived.forget()

    done = await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    assert (list(done.tasks), a in done.tasks) == ([c], False)
    assert done.notes == (
        f"{b} is left out: it waits for a failure, and no dependency of it runs again",
    )


async def test_a_one_failed_task_is_restored_by_its_id(
    archived: ArchivedHarness,
) -> None:
    _, a, b = await pair(archived, "one_failed")
    await archived.run(fail=("a",))
    await promote(archived)
    await archived.run(fail=("b",))
    await archived.queue.purge()
    await archived.forget()

    done = await archived.queue.archive.restore(b)

    assert (await archived.queue.get(done.tasks[b])).state is State.READY
    assert done.notes == (f"{b} does not wait for {a}, which no longer exists",)


async def test_a_one_failed_task_whose_dependency_completed_is_restored_by_its_id(
    archived: ArchivedHarness,
) -> None:
    parent = await archived.harness.running("first")
    child = await archived.queue.enqueue("second", {}, depends_on=[parent.id], trigger="one_failed")
    await archived.queue.cancel(child.id)
    await archived.archiver.tick()
    await parent.complete()

    done = await archived.queue.archive.restore(child.id)

    assert (await archived.queue.get(done.tasks[child.id])).state is State.READY
