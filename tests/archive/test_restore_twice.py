"""Repeated restores of one life: one new task while its key is valid."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def deduplicating(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    """A queue that reads completed tasks from its archive before a submission."""
    async with archived_harness(valkey, pg, dedupe_archive=True) as found:
        yield found


async def test_a_repeated_restore_returns_the_same_task(archived: ArchivedHarness) -> None:
    task = await archived.ended()
    await archived.archiver.tick()

    first, second = [await archived.queue.archive.restore(task) for _ in range(2)]

    assert first.tasks == second.tasks
    assert (first.created, second.created) == (True, False)


async def test_the_unique_option_until_start_is_not_restored(
    archived: ArchivedHarness,
) -> None:
    task = await archived.ended(idempotency_key="mine", unique="until_start")
    await archived.forget()

    first = await archived.queue.archive.restore(task)
    await archived.run()
    second = await archived.queue.archive.restore(task)

    assert (second.tasks, second.created) == (first.tasks, False)


async def test_the_archive_finds_a_restored_task_that_expired_in_redis(
    deduplicating: ArchivedHarness,
) -> None:
    task = await deduplicating.ended()
    await deduplicating.forget()

    first = await deduplicating.queue.archive.restore(task)
    await deduplicating.run()
    await deduplicating.forget()
    second = await deduplicating.queue.archive.restore(task)

    assert (second.tasks, second.created) == (first.tasks, False)


async def test_a_cancelled_restored_task_can_be_restored_again(archived: ArchivedHarness) -> None:
    task = await archived.ended()
    await archived.archiver.tick()

    first = await archived.queue.archive.restore(task)
    await archived.queue.cancel(first.tasks[task])
    second = await archived.queue.archive.restore(task)

    assert (second.tasks != first.tasks, second.created) == (True, True)
