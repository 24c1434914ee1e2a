"""The inbox of a queue whose archive cannot say, though its server is there: only keys wait."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from rqueue.archive.schema import migrate_all
from rqueue.inbox.reader import InboxDone
from tests.archive.reading.library import founded
from tests.archive.reading.test_inbox_away import Desk, keyed, plain
from tests.inbox_entries import left, payloads, refused, send
from tests.postgres import Database
from tests.servers import Server

UNMIGRATED = (
    "archive unavailable, tasks with idempotency keys wait: "
    "archive: lacks tables of this release: run `rqueue archive migrate`"
)


@pytest.fixture
async def desk(valkey: Server, bare_pg: Database) -> AsyncIterator[Desk]:
    async with founded(
        valkey, bare_pg, migrated=False, dedupe_archive=True, call_timeout_sec=1
    ) as library:
        yield Desk(library, bare_pg)


async def migrate(desk: Desk) -> None:
    """Makes the tables."""
    archive = desk.harness.queue._internals.runtime.archive
    assert archive is not None
    await migrate_all(archive, desk.harness.queue._internals.clock.now())


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of the archive."""
    return [one.getMessage() for one in caplog.records if one.name == "rqueue.scheduler"]


async def test_without_tables_tasks_without_a_key_are_taken_and_none_is_lost(desk: Desk) -> None:
    harness = desk.harness
    await send(harness, keyed(1))
    await send(harness, plain(2))
    await send(harness, plain(3), keyed(4))

    assert await desk.inbox.tick() == InboxDone(taken=1, withheld=2)
    assert (await payloads(harness), await refused(harness), await left(harness)) == ([2], [], 2)

    await migrate(desk)
    desk.clock.ms += 60_000
    assert await desk.inbox.tick() == InboxDone(taken=3)
    assert sorted(await payloads(harness)) == [1, 2, 3, 4]
    assert (await refused(harness), await left(harness)) == ([], 0)


async def test_that_the_archive_cannot_say_is_told_once_and_so_is_that_it_can(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rqueue")
    await send(desk.harness, keyed(1))

    for _ in range(3):
        await desk.inbox.tick()
        desk.clock.ms += 60_000
    await migrate(desk)
    for number in range(2, 4):
        await desk.inbox.tick()
        await send(desk.harness, keyed(number))

    assert told(caplog) == [UNMIGRATED, "archive available again for deduplication"]
