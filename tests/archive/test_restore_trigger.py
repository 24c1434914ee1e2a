"""Restoring what ran however its parents ended, or because one of them failed."""

from __future__ import annotations

from rqueue import DagHandle, State, TaskId
from tests.archive.archived_harness import ArchivedHarness


async def pair(home: ArchivedHarness, trigger: str) -> tuple[DagHandle, TaskId, TaskId]:
    """a, then b, which is freed by this trigger."""
    after = {"name": "b", "type": "t", "after": ["a"], "trigger": trigger}
    dag = await home.queue.dags.submit({"tasks": [{"name": "a", "type": "t"}, after]})
    a, b = await dag.tasks()
    return dag, a.id, b.id


async def promote(home: ArchivedHarness) -> None:
    """Tells those that wait for any end of the deaths there were."""
    await home.harness.promoter.tick()


async def test_what_ran_after_any_end_runs_anew_alone_where_that_end_was_good(
    home: ArchivedHarness,
) -> None:
    dag, _, b = await pair(home, "all_done")
    assert await home.run(fail=("b",)) == ["a", "b"]
    await home.forget()

    done = await home.queue.archive.restore_dag(dag.id, incomplete=True)

    assert (list(done.tasks), done.notes) == ([b], ())
    assert await home.run() == ["b"]


async def test_what_ran_after_any_end_is_restored_by_its_id(home: ArchivedHarness) -> None:
    _, _, b = await pair(home, "all_done")
    await home.run(fail=("b",))
    await home.forget()

    done = await home.queue.archive.restore(b)

    assert (await home.queue.get(done.tasks[b])).state is State.READY


async def test_it_waits_for_what_runs_anew_whatever_its_end(home: ArchivedHarness) -> None:
    dag, _, b = await pair(home, "all_done")
    await home.run(fail=("a",))
    await promote(home)
    assert await home.run(fail=("b",)) == ["b"]
    await home.queue.purge()
    await home.forget()

    done = await home.queue.archive.restore_dag(dag.id, incomplete=True)

    assert (await home.queue.get(done.tasks[b])).state is State.PENDING
    assert await home.run(fail=("a",)) == ["a"]
    await promote(home)
    assert await home.run() == ["b"]


async def test_what_waited_for_a_failure_that_was_none_is_left_out_of_its_dag(
    home: ArchivedHarness,
) -> None:
    tasks = [
        {"name": "a", "type": "t"},
        {"name": "b", "type": "t", "after": ["a"], "trigger": "one_failed"},
        {"name": "c", "type": "t", "after": ["a"]},
    ]
    dag = await home.queue.dags.submit({"tasks": tasks})
    a, b, c = [task.id for task in await dag.tasks()]
    assert await home.run(fail=("c",)) == ["a", "c"]
    await promote(home)
    await home.queue.purge()
    await home.forget()

    done = await home.queue.archive.restore_dag(dag.id, incomplete=True)

    assert (list(done.tasks), a in done.tasks) == ([c], False)
    assert done.notes == (
        f"{b} is left out: it waits for a failure, and no dependency of it runs again",
    )


async def test_what_ran_because_of_a_failure_is_restored_by_its_id(home: ArchivedHarness) -> None:
    _, a, b = await pair(home, "one_failed")
    await home.run(fail=("a",))
    await promote(home)
    await home.run(fail=("b",))
    await home.queue.purge()
    await home.forget()

    done = await home.queue.archive.restore(b)

    assert (await home.queue.get(done.tasks[b])).state is State.READY
    assert done.notes == (f"{b} does not wait for {a}, which no longer exists",)


async def test_what_waited_for_a_failure_that_was_none_is_restored_by_its_id(
    home: ArchivedHarness,
) -> None:
    parent = await home.harness.running("first")
    child = await home.queue.enqueue("second", {}, depends_on=[parent.id], trigger="one_failed")
    await home.queue.cancel(child.id)
    await home.archiver.tick()
    await parent.complete()

    done = await home.queue.archive.restore(child.id)

    assert (await home.queue.get(done.tasks[child.id])).state is State.READY
