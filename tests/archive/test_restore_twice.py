"""The same life restored twice: one new task, for as long as its key counts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.archive.archived_harness import ArchivedHarness, housed
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def remembering(valkey: Server, pg: Database) -> AsyncIterator[ArchivedHarness]:
    """A queue that asks its archive for what has completed."""
    async with housed(valkey, pg, dedupe_archive=True) as found:
        yield found


async def test_it_is_one_while_it_lives(home: ArchivedHarness) -> None:
    task = await home.ended()
    await home.archiver.tick()

    first, second = [await home.queue.archive.restore(task) for _ in range(2)]

    assert first.tasks == second.tasks
    assert (first.created, second.created) == (True, False)


async def test_a_key_that_was_free_from_the_start_on_is_not_carried_over(
    home: ArchivedHarness,
) -> None:
    task = await home.ended(idempotency_key="mine", unique="until_start")
    await home.forget()

    first = await home.queue.archive.restore(task)
    await home.run()
    second = await home.queue.archive.restore(task)

    assert (second.tasks, second.created) == (first.tasks, False)


async def test_an_archive_that_is_asked_knows_it_when_redis_has_forgotten(
    remembering: ArchivedHarness,
) -> None:
    task = await remembering.ended()
    await remembering.forget()

    first = await remembering.queue.archive.restore(task)
    await remembering.run()
    await remembering.forget()
    second = await remembering.queue.archive.restore(task)

    assert (second.tasks, second.created) == (first.tasks, False)


async def test_one_that_was_given_up_is_restored_anew(home: ArchivedHarness) -> None:
    task = await home.ended()
    await home.archiver.tick()

    first = await home.queue.archive.restore(task)
    await home.queue.cancel(first.tasks[task])
    second = await home.queue.archive.restore(task)

    assert (second.tasks != first.tasks, second.created) == (True, True)
