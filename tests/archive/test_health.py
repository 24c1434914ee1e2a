"""What `rqueue doctor` is told of an archive."""

from __future__ import annotations

import pytest

from rqueue.archive.connection import Archive
from rqueue.archive.health import ArchiveFacts, read_health
from rqueue.core.outbox import oldest_ms
from tests.archive.library import Library
from tests.archive.test_poison import announce
from tests.postgres import Database


async def test_a_good_archive_is_told_with_what_it_set_aside(shelves: Library) -> None:
    await announce(shelves, b"no id", b"1 COMPLETED")
    await shelves.archiver.tick()

    found = await read_health(shelves.archive, "house")

    assert (found.fault, found.missing, found.quarantined, found.conflicts) == (None, 0, 1, 0)
    assert found.version.startswith("PostgreSQL 1")


async def test_missing_tables_are_counted(bare_pg: Database) -> None:
    archive = Archive(lambda: bare_pg.url)

    found = await read_health(archive, "q")

    assert found.missing > 0
    await archive.aclose()


async def test_one_that_is_away_is_a_fact_and_no_error() -> None:
    archive = Archive(lambda: "postgresql:///x?host=/nowhere", timeout_sec=1)

    found = await read_health(archive, "q")

    assert found == ArchiveFacts("q", fault=found.fault)
    assert found.fault
    await archive.aclose()


async def test_the_age_of_the_outbox_is_that_of_its_first_entry(shelf: Library) -> None:
    assert await oldest_ms(shelf.harness.queue._internals.shard) is None
    await shelf.harness.client.xadd(shelf.harness.keys.outbox(), {"a": "b"}, id="5-0")
    await shelf.completed()

    found = await oldest_ms(shelf.harness.queue._internals.shard)

    assert found == pytest.approx(1_794_962_239_593, rel=0.5)
