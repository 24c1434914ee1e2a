"""The inbox while the archive is away that is to be asked about keys: only those wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue.inbox import reader as service
from rqueue.inbox import store
from rqueue.inbox.reader import Inbox, InboxDone
from rqueue.testing.clock import ManualClock
from tests.archive.reading.library import Library, founded
from tests.inbox_entries import age, held, left, payloads, refused, send
from tests.postgres import Database
from tests.servers import Server


def plain(payload: object, **more: Any) -> dict[str, Any]:
    return {"type": "code", "payload": payload, **more}


def keyed(payload: object, **more: Any) -> dict[str, Any]:
    return plain(payload, idempotency_key=f"k{payload}", **more)


class Desk:
    """An inbox whose archive is away until it is back."""

    def __init__(self, library: Library, database: Database) -> None:
        self.harness = library.harness
        self.database = database
        self.clock = ManualClock(library.queue._internals.clock.now())
        self.inbox = self.another("r1")

    def another(self, reader: str) -> Inbox:
        queue = self.harness.queue
        earlier = queue._internals.runtime.earlier
        assert earlier is not None
        return Inbox(
            queue._internals.shard, queue.settings, clock=self.clock, reader=reader, earlier=earlier
        )

    def is_back(self) -> None:
        self.database.start()
        self.clock.ms += 60_000


@asynccontextmanager
async def away(server: Server, database: Database) -> AsyncIterator[Desk]:
    async with founded(server, database, dedupe_archive=True, call_timeout_sec=1) as library:
        desk = Desk(library, database)
        database.stop()
        yield desk


@pytest.fixture
async def desk(valkey: Server, own_pg: Database) -> AsyncIterator[Desk]:
    async with away(valkey, own_pg) as found:
        yield found


async def test_tasks_without_a_key_are_taken_as_ever(desk: Desk) -> None:
    harness = desk.harness
    await send(harness, keyed(1))
    await send(harness, plain(2))
    await send(harness, plain(3), keyed(4))

    assert await desk.inbox.tick() == InboxDone(taken=1, withheld=2)
    await send(harness, plain(5))
    await send(harness, keyed(6))
    assert await desk.inbox.tick() == InboxDone(taken=1, withheld=3)
    assert (await payloads(harness), await left(harness)) == ([2, 5], 3)

    desk.is_back()
    assert await desk.inbox.tick() == InboxDone(taken=4)
    assert sorted(await payloads(harness)) == [1, 2, 3, 4, 5, 6]
    assert (await refused(harness), await left(harness)) == ([], 0)


async def test_the_archive_is_not_asked_by_each_tick(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(desk.harness, keyed(1))
    assert await desk.inbox.tick() == InboxDone(withheld=1)

    monkeypatch.setattr(desk.inbox.completed.archive, "completed", None)

    assert await desk.inbox.tick() == InboxDone(withheld=1)


async def test_who_waits_for_one_that_waits_is_not_refused(desk: Desk) -> None:
    harness = desk.harness
    await send(harness, keyed(1, external_id="parent"))
    await send(harness, plain(2, depends_on=["parent"]))
    await send(harness, plain(3), plain(4, depends_on=["parent"]))
    await send(harness, plain(5, depends_on=["nobody"]))

    assert await desk.inbox.tick() == InboxDone(withheld=4)
    assert (await payloads(harness), await refused(harness)) == ([], [])

    desk.is_back()
    assert await desk.inbox.tick() == InboxDone(taken=4, rejected=1)
    assert sorted(await payloads(harness)) == [1, 2, 3, 4]


async def test_what_is_behind_whole_pages_of_keys_is_reached(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(store.PAGE + 5):
        await send(desk.harness, keyed(number))
    await send(desk.harness, plain("last"))

    assert await desk.inbox.tick() == InboxDone(taken=1, withheld=store.PAGE + 5)
    assert await payloads(desk.harness) == ["last"]

    monkeypatch.setattr(service, "MOST_WITHHELD", 3)
    await send(desk.harness, plain("beyond"))
    assert (await desk.inbox.tick()).taken == 0
    desk.is_back()
    assert (await desk.inbox.tick()).taken == store.PAGE + 6


async def test_another_reader_goes_on_with_what_waits(desk: Desk) -> None:
    harness = desk.harness
    entry = await send(harness, keyed(1))
    assert await desk.inbox.tick() == InboxDone(withheld=1)
    await send(harness, plain(2))
    other = desk.another("r2")
    assert await other.tick() == InboxDone()

    await age(harness, "r1", entry)

    assert await other.tick() == InboxDone(taken=1, withheld=1)
    assert await held(harness) == {entry: "r2"}
    assert await payloads(harness) == [2]
