"""The inbox while the archive is unavailable: only tasks with idempotency keys wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue.inbox import reader as service
from rqueue.inbox import store
from rqueue.inbox.reader import Inbox, InboxDone
from rqueue.testing.timeline import ManualClock
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.inbox_entries import age, held, left, payloads, refused, send
from tests.postgres import Database
from tests.servers import Server


def plain(payload: object, **more: Any) -> dict[str, Any]:
    return {"type": "code", "payload": payload, **more}


def keyed(payload: object, **more: Any) -> dict[str, Any]:
    return plain(payload, idempotency_key=f"k{payload}", **more)


class InboxHarness:
    """An inbox whose archive is stopped until the test starts it."""

    def __init__(self, env: ReaderHarness, database: Database) -> None:
        self.harness = env.harness
        self.database = database
        self.clock = ManualClock(env.queue._internals.clock.now())
        self.inbox = self.another_inbox("r1")

    def another_inbox(self, reader: str) -> Inbox:
        queue = self.harness.queue
        earlier = queue._internals.runtime.earlier
        assert earlier is not None
        return Inbox(
            queue._internals.shard, queue.settings, clock=self.clock, reader=reader, earlier=earlier
        )

    def start_archive(self) -> None:
        self.database.start()
        self.clock.ms += 60_000


@asynccontextmanager
async def stopped_archive(server: Server, database: Database) -> AsyncIterator[InboxHarness]:
    async with reader_harness(server, database, dedupe_archive=True, call_timeout_sec=1) as env:
        inbox_env = InboxHarness(env, database)
        database.stop()
        yield inbox_env


@pytest.fixture
async def inbox_env(valkey: Server, own_pg: Database) -> AsyncIterator[InboxHarness]:
    async with stopped_archive(valkey, own_pg) as found:
        yield found


async def test_tasks_without_a_key_are_submitted_as_usual(inbox_env: InboxHarness) -> None:
    harness = inbox_env.harness
    await send(harness, keyed(1))
    await send(harness, plain(2))
    await send(harness, plain(3), keyed(4))

    assert await inbox_env.inbox.tick() == InboxDone(taken=1, withheld=2)
    await send(harness, plain(5))
    await send(harness, keyed(6))
    assert await inbox_env.inbox.tick() == InboxDone(taken=1, withheld=3)
    assert (await payloads(harness), await left(harness)) == ([2, 5], 3)

    inbox_env.start_archive()
    assert await inbox_env.inbox.tick() == InboxDone(taken=4)
    assert sorted(await payloads(harness)) == [1, 2, 3, 4, 5, 6]
    assert (await refused(harness), await left(harness)) == ([], 0)


async def test_the_archive_is_not_read_in_each_tick(
    inbox_env: InboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(inbox_env.harness, keyed(1))
    assert await inbox_env.inbox.tick() == InboxDone(withheld=1)

    monkeypatch.setattr(inbox_env.inbox.completed.archive, "completed", None)

    assert await inbox_env.inbox.tick() == InboxDone(withheld=1)


async def test_a_task_that_depends_on_a_withheld_one_is_withheld_too(
    inbox_env: InboxHarness,
) -> None:
    harness = inbox_env.harness
    await send(harness, keyed(1, external_id="parent"))
    await send(harness, plain(2, depends_on=["parent"]))
    await send(harness, plain(3), plain(4, depends_on=["parent"]))
    await send(harness, plain(5, depends_on=["nobody"]))

    assert await inbox_env.inbox.tick() == InboxDone(withheld=4)
    assert (await payloads(harness), await refused(harness)) == ([], [])

    inbox_env.start_archive()
    assert await inbox_env.inbox.tick() == InboxDone(taken=4, rejected=1)
    assert sorted(await payloads(harness)) == [1, 2, 3, 4]


async def test_entries_behind_pages_of_withheld_ones_are_read(
    inbox_env: InboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(store.PAGE + 5):
        await send(inbox_env.harness, keyed(number))
    await send(inbox_env.harness, plain("last"))

    assert await inbox_env.inbox.tick() == InboxDone(taken=1, withheld=store.PAGE + 5)
    assert await payloads(inbox_env.harness) == ["last"]

    monkeypatch.setattr(service, "MOST_WITHHELD", 3)
    await send(inbox_env.harness, plain("beyond"))
    assert (await inbox_env.inbox.tick()).taken == 0
    inbox_env.start_archive()
    assert (await inbox_env.inbox.tick()).taken == store.PAGE + 6


async def test_another_reader_takes_over_withheld_entries(inbox_env: InboxHarness) -> None:
    harness = inbox_env.harness
    entry = await send(harness, keyed(1))
    assert await inbox_env.inbox.tick() == InboxDone(withheld=1)
    await send(harness, plain(2))
    other = inbox_env.another_inbox("r2")
    assert await other.tick() == InboxDone()

    await age(harness, "r1", entry)

    assert await other.tick() == InboxDone(taken=1, withheld=1)
    assert await held(harness) == {entry: "r2"}
    assert await payloads(harness) == [2]
