"""Restoring while the archive does not have all that has ended: refused, or said."""

from __future__ import annotations

import pytest

from rqueue import DagHandle, Lease
from rqueue.errors import InvalidTask, NotArchived
from tests.archive.archived_harness import ArchivedHarness


async def chain(home: ArchivedHarness, **options: str) -> DagHandle:
    """a, then b, then c."""
    tasks = [
        {"name": "a", "type": "t"},
        {"name": "b", "type": "t", "after": ["a"]},
        {"name": "c", "type": "t", "after": ["b"]},
    ]
    return await home.queue.dags.submit({"title": "chain", "tasks": tasks, **options})


async def next_lease(home: ArchivedHarness) -> Lease:
    """The next task, started."""
    (lease,) = await home.queue.claim(worker="w1", n=1)
    await lease.start()
    return lease


async def test_a_dag_is_not_restored_before_all_of_it_is_archived(home: ArchivedHarness) -> None:
    dag = await chain(home)
    await (await next_lease(home)).complete()
    await home.archiver.tick()
    await home.run()
    before = await home.harness.dump()

    with pytest.raises(NotArchived) as refused:
        await home.queue.archive.restore_dag(dag.id)

    assert (refused.value.what, refused.value.waiting) == (dag.id, 2)
    assert "2 tasks wait in the outbox" in str(refused.value)
    assert await home.harness.dump() == before
    await home.archiver.tick()
    assert len((await home.queue.archive.restore_dag(dag.id)).tasks) == 3


async def test_a_dag_of_which_nothing_is_archived_is_not_said_to_be_unknown(
    home: ArchivedHarness,
) -> None:
    dag = await chain(home)
    await home.run()

    with pytest.raises(NotArchived, match="3 tasks wait"):
        await home.queue.archive.restore_dag(dag.id)


async def test_what_did_not_complete_is_not_judged_by_an_earlier_life(
    home: ArchivedHarness,
) -> None:
    dag = await chain(home)
    await home.run(fail=("c",))
    await home.archiver.tick()
    (dead,) = [task async for task in home.queue.find(states=["DEAD_LETTERED"])]
    await home.queue.dead.retry(dead.id)
    await home.run()

    with pytest.raises(NotArchived, match="1 task waits"):
        await home.queue.archive.restore_dag(dag.id, incomplete=True)

    await home.archiver.tick()
    with pytest.raises(InvalidTask, match="nothing to restore"):
        await home.queue.archive.restore_dag(dag.id, incomplete=True)


async def test_a_task_is_not_restored_before_its_last_life_is_archived(
    home: ArchivedHarness,
) -> None:
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await home.archiver.tick()
    await home.queue.dead.edit(lease.id, {"new": True})
    await (await next_lease(home)).fail(permanent=True)

    with pytest.raises(NotArchived, match="1 task waits"):
        await home.queue.archive.restore(lease.id)

    await home.archiver.tick()
    done = await home.queue.archive.restore(lease.id)
    assert (await home.queue.get(done.tasks[lease.id])).payload == {"new": True}


async def test_a_task_that_waits_in_the_outbox_is_not_said_to_be_unknown(
    home: ArchivedHarness,
) -> None:
    task = await home.ended()

    with pytest.raises(NotArchived):
        await home.queue.archive.restore(task)


async def test_a_life_that_the_archive_has_not_is_not_restored_as_the_one_before(
    home: ArchivedHarness,
) -> None:
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await home.archiver.tick()
    await home.queue.dead.retry(lease.id)
    await (await next_lease(home)).complete()
    await home.harness.client.delete(home.harness.keys.outbox())

    with pytest.raises(InvalidTask, match="does not have its life 2"):
        await home.queue.archive.restore(lease.id)


@pytest.mark.parametrize("remembered", [True, False])
async def test_what_the_archive_has_no_more_is_said(
    home: ArchivedHarness, remembered: bool
) -> None:
    dag = await chain(home)
    await home.run()
    await home.archiver.tick()
    home.kept.database.psql("DELETE FROM rqueue.task_lives WHERE spec ->> 'name' = 'a'")
    if not remembered:
        await home.harness.client.flushall()

    done = await home.queue.archive.restore_dag(dag.id)

    assert len(done.tasks) == 2
    assert f"{dag.id} comes without 1 of its 3 tasks, which the archive does not have" in done.notes
