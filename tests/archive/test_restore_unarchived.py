"""Restoring while ended tasks are missing in the archive: refused, or reported."""

from __future__ import annotations

import pytest

from rqueue import DagHandle, Lease
from rqueue.errors import InvalidTask, NotArchived
from tests.archive.archived_harness import ArchivedHarness


async def chain(archived: ArchivedHarness, **options: str) -> DagHandle:
    """Submits a, then b, then c."""
    tasks = [
        {"name": "a", "type": "t"},
        {"name": "b", "type": "t", "after": ["a"]},
        {"name": "c", "type": "t", "after": ["b"]},
    ]
    return await archived.queue.dags.submit({"title": "chain", "tasks": tasks, **options})


async def next_lease(archived: ArchivedHarness) -> Lease:
    """Returns the lease of the next task, started."""
    (lease,) = await archived.queue.claim(worker="w1", n=1)
    await lease.start()
    return lease


async def test_a_dag_is_not_restored_before_all_of_it_is_archived(
    archived: ArchivedHarness,
) -> None:
    dag = await chain(archived)
    await (await next_lease(archived)).complete()
    await archived.archiver.tick()
    await archived.run()
    before = await archived.harness.dump()

    with pytest.raises(NotArchived) as refused:
        await archived.queue.archive.restore_dag(dag.id)

    assert (refused.value.what, refused.value.waiting) == (dag.id, 2)
    assert "2 tasks wait in the outbox" in str(refused.value)
    assert await archived.harness.dump() == before
    await archived.archiver.tick()
    assert len((await archived.queue.archive.restore_dag(dag.id)).tasks) == 3


async def test_a_dag_in_the_outbox_is_not_reported_as_unknown(
    archived: ArchivedHarness,
) -> None:
    dag = await chain(archived)
    await archived.run()

    with pytest.raises(NotArchived, match="3 tasks wait"):
        await archived.queue.archive.restore_dag(dag.id)


async def test_an_earlier_life_does_not_decide_whether_a_task_is_incomplete(
    archived: ArchivedHarness,
) -> None:
    dag = await chain(archived)
    await archived.run(fail=("c",))
    await archived.archiver.tick()
    (dead,) = [task async for task in archived.queue.find(states=["DEAD_LETTERED"])]
    await archived.queue.dead.retry(dead.id)
    await archived.run()

    with pytest.raises(NotArchived, match="1 task waits"):
        await archived.queue.archive.restore_dag(dag.id, incomplete=True)

    await archived.archiver.tick()
    with pytest.raises(InvalidTask, match="nothing to restore"):
        await archived.queue.archive.restore_dag(dag.id, incomplete=True)


async def test_a_task_is_not_restored_before_its_last_life_is_archived(
    archived: ArchivedHarness,
) -> None:
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await archived.archiver.tick()
    await archived.queue.dead.edit(lease.id, {"new": True})
    await (await next_lease(archived)).fail(permanent=True)

    with pytest.raises(NotArchived, match="1 task waits"):
        await archived.queue.archive.restore(lease.id)

    await archived.archiver.tick()
    done = await archived.queue.archive.restore(lease.id)
    assert (await archived.queue.get(done.tasks[lease.id])).payload == {"new": True}


async def test_a_task_in_the_outbox_is_not_reported_as_unknown(
    archived: ArchivedHarness,
) -> None:
    task = await archived.ended()

    with pytest.raises(NotArchived):
        await archived.queue.archive.restore(task)


async def test_a_missing_life_is_not_replaced_by_an_earlier_one(
    archived: ArchivedHarness,
) -> None:
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await archived.archiver.tick()
    await archived.queue.dead.retry(lease.id)
    await (await next_lease(archived)).complete()
    await archived.harness.client.delete(archived.harness.keys.outbox())

    with pytest.raises(InvalidTask, match="life 2 is not in the archive"):
        await archived.queue.archive.restore(lease.id)


@pytest.mark.parametrize("remembered", [True, False])
async def test_missing_tasks_of_a_dag_are_reported(
    archived: ArchivedHarness, remembered: bool
) -> None:
    dag = await chain(archived)
    await archived.run()
    await archived.archiver.tick()
    archived.tables.database.psql("DELETE FROM rqueue.task_lives WHERE spec ->> 'name' = 'a'")
    if not remembered:
        await archived.harness.client.flushall()

    done = await archived.queue.archive.restore_dag(dag.id)

    assert len(done.tasks) == 2
    assert (
        f"{dag.id} is restored without 1 of its 3 tasks, which are not in the archive" in done.notes
    )
