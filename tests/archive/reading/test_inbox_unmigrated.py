"""The inbox of a queue whose archive has no tables: only tasks with idempotency keys wait."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from rqueue.archive.schema import migrate_all
from rqueue.inbox.reader import InboxDone
from tests.archive.reading.reader_harness import reader_harness
from tests.archive.reading.test_inbox_unavailable import InboxHarness, keyed, plain
from tests.inbox_entries import left, payloads, refused, send
from tests.postgres import Database
from tests.servers import Server

UNMIGRATED = (
    "archive unavailable, tasks with idempotency keys wait: "
    "archive: lacks tables of this release: run `rqueue archive migrate`"
)


@pytest.fixture
async def inbox_env(valkey: Server, bare_pg: Database) -> AsyncIterator[InboxHarness]:
    async with reader_harness(
        valkey, bare_pg, migrated=False, dedupe_archive=True, call_timeout_sec=1
    ) as env:
        yield InboxHarness(env, bare_pg)


async def migrate(inbox_env: InboxHarness) -> None:
    """Creates the tables."""
    archive = inbox_env.harness.queue._internals.runtime.archive
    assert archive is not None
    await migrate_all(archive, inbox_env.harness.queue._internals.clock.now())


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns the log lines about the archive."""
    return [one.getMessage() for one in caplog.records if one.name == "rqueue.scheduler"]


async def test_without_tables_tasks_without_a_key_are_submitted_and_none_is_lost(
    inbox_env: InboxHarness,
) -> None:
    harness = inbox_env.harness
    await send(harness, keyed(1))
    await send(harness, plain(2))
    await send(harness, plain(3), keyed(4))

    assert await inbox_env.inbox.tick() == InboxDone(taken=1, withheld=2)
    assert (await payloads(harness), await refused(harness), await left(harness)) == ([2], [], 2)

    await migrate(inbox_env)
    inbox_env.clock.ms += 60_000
    assert await inbox_env.inbox.tick() == InboxDone(taken=3)
    assert sorted(await payloads(harness)) == [1, 2, 3, 4]
    assert (await refused(harness), await left(harness)) == ([], 0)


async def test_an_unusable_archive_and_its_recovery_are_logged_once_each(
    inbox_env: InboxHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rqueue")
    await send(inbox_env.harness, keyed(1))

    for _ in range(3):
        await inbox_env.inbox.tick()
        inbox_env.clock.ms += 60_000
    await migrate(inbox_env)
    for number in range(2, 4):
        await inbox_env.inbox.tick()
        await send(inbox_env.harness, keyed(number))

    assert log_lines(caplog) == [UNMIGRATED, "archive available again for deduplication"]
